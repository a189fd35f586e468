"""Parses a template's tokens into nodes, by the rules of llama.cpp's `jinja/parser.cpp`."""

from collections.abc import Callable
from typing import TypeVar

from handlers.jinja import expressions, statements
from handlers.jinja.errors import TemplateError, with_source
from handlers.jinja.lexer import Kind, Token
from handlers.jinja.nodes import Node

N = TypeVar("N", bound=Node)
_END = Token(Kind.EOF, "", 0)


def parse(tokens: list[Token], source: str) -> list[Node]:
    """The template's nodes; raises TemplateError."""
    return _Parser(tokens, source).program()


class _Parser:
    def __init__(self, tokens: list[Token], source: str) -> None:
        self._tokens = tokens
        self._source = source
        self._current = 0

    def program(self) -> list[Node]:
        body: list[Node] = []
        while self._current < len(self._tokens):
            body.append(self._any())
        return body

    # --- tokens ---

    def _peek(self, offset: int = 0) -> Token:
        index = self._current + offset
        return self._tokens[index] if index < len(self._tokens) else _END

    def _next(self) -> Token:
        if self._current >= len(self._tokens):
            pos = self._tokens[-1].pos if self._tokens else 0
            raise self._fail("Parser Error: Unexpected EOF", pos)
        self._current += 1
        return self._tokens[self._current - 1]

    def _is(self, kind: Kind) -> bool:
        return self._peek().kind is kind

    def _is_word(self, word: str, offset: int = 0) -> bool:
        token = self._peek(offset)
        return token.kind is Kind.IDENTIFIER and token.value == word

    def _is_statement(self, *words: str) -> bool:
        return self._is(Kind.OPEN_STATEMENT) and any(self._is_word(w, 1) for w in words)

    def _expect(self, kind: Kind, what: str) -> None:
        token = self._peek()
        if token.kind is not kind:
            raise self._fail(f"Parser Error: Expected {what} (Got {token.value})", token.pos)
        self._current += 1

    def _expect_word(self, word: str) -> None:
        if not self._is_word(word):
            raise self._fail(f"Expected identifier: {word}", self._peek().pos)
        self._current += 1

    def _close(self) -> None:
        self._expect(Kind.CLOSE_STATEMENT, "%}")

    def _fail(self, message: str, pos: int) -> TemplateError:
        return TemplateError(with_source("parser", message, self._source, pos))

    def _made(self, start: int, node: N) -> N:
        node.pos = self._tokens[start].pos if start < len(self._tokens) else 0
        return node

    # --- statements ---

    def _any(self) -> Node:
        start, token = self._current, self._peek()
        if token.kind is Kind.COMMENT:
            self._current += 1
            return self._made(start, statements.Nothing())
        if token.kind is Kind.TEXT:
            self._current += 1
            return self._made(start, expressions.Literal(token.value.encode("latin-1")))
        if token.kind is Kind.OPEN_STATEMENT:
            return self._statement()
        if token.kind is Kind.OPEN_EXPRESSION:
            self._current += 1
            value = self._expression()
            self._expect(Kind.CLOSE_EXPRESSION, "}}")
            return value
        raise TemplateError("Unexpected token type")

    def _until(self, *words: str) -> list[Node]:
        body: list[Node] = []
        while not self._is_statement(*words):
            body.append(self._any())
        return body

    def _end(self, word: str) -> None:
        self._expect(Kind.OPEN_STATEMENT, "{%")
        self._expect_word(word)
        self._close()

    def _statement(self) -> Node:
        self._current += 1
        if not self._is(Kind.IDENTIFIER):
            raise TemplateError("Unknown statement")
        start = self._current
        word = self._next().value
        parsers: dict[str, Callable[[int], Node]] = {
            "set": self._set,
            "if": self._whole_if,
            "macro": self._macro,
            "for": self._for,
            "break": lambda start: self._bare(start, statements.Break()),
            "continue": lambda start: self._bare(start, statements.Continue()),
            "call": self._call_block,
            "filter": self._filter_block,
            "generation": self._passed_over,
            "endgeneration": self._passed_over,
        }
        if word not in parsers:
            raise TemplateError(f"Unknown statement: {word}")
        return parsers[word](start)

    def _bare(self, start: int, node: Node) -> Node:
        self._close()
        return self._made(start, node)

    def _passed_over(self, start: int) -> Node:
        self._current += 1
        return self._made(start, statements.Nothing())

    def _set(self, start: int) -> Node:
        target = self._sequence()
        value: Node | None = None
        body: list[Node] = []
        if self._is(Kind.EQUALS):
            self._current += 1
            value = self._sequence()
        else:
            self._close()
            body = self._until("endset")
            self._current += 2
        self._close()
        return self._made(start, statements.Set(target, value, body))

    def _whole_if(self, start: int) -> Node:
        made = self._if(start)
        self._end("endif")
        return made

    def _if(self, start: int) -> Node:
        test = self._expression()
        self._close()
        body = self._until("elif", "else", "endif")
        alternate: list[Node] = []
        if self._is_statement("elif"):
            inner = self._current
            self._current += 2
            alternate = [self._if(inner)]
        elif self._is_statement("else"):
            self._current += 2
            self._close()
            alternate = self._until("endif")
        return self._made(start, statements.If(test, body, alternate))

    def _macro(self, start: int) -> Node:
        name, parameters = self._primary(), self._args()
        self._close()
        body = self._until("endmacro")
        self._end("endmacro")
        return self._made(start, statements.Macro(name, parameters, body))

    def _for(self, start: int) -> Node:
        target = self._sequence(primary=True)
        if not self._is_word("in"):
            raise TemplateError("Expected 'in'")
        self._current += 1
        iterable = self._expression()
        self._close()
        body = self._until("endfor", "else")
        alternate: list[Node] = []
        if self._is_statement("else"):
            self._current += 2
            self._close()
            alternate = self._until("endfor")
        self._end("endfor")
        return self._made(start, statements.For(target, iterable, body, alternate))

    def _call_block(self, start: int) -> Node:
        parameters = self._args() if self._is(Kind.OPEN_PAREN) else []
        callee = self._primary()
        if not isinstance(callee, expressions.Name):
            raise TemplateError("Expected identifier")
        args = self._args()
        self._close()
        body = self._until("endcall")
        self._end("endcall")
        call = self._made(start, expressions.Call(callee, args))
        return self._made(start, statements.CallBlock(call, parameters, body))

    def _filter_block(self, start: int) -> Node:
        filter = self._primary()
        if isinstance(filter, expressions.Name) and self._is(Kind.OPEN_PAREN):
            filter = self._call(filter)
        self._close()
        body = self._until("endfilter")
        self._end("endfilter")
        return self._made(start, statements.FilterBlock(filter, body))

    # --- expressions, the loosest binding first ---

    def _sequence(self, *, primary: bool = False) -> Node:
        start, read = self._current, self._primary if primary else self._expression
        items = [read()]
        is_tuple = self._is(Kind.COMMA)
        while self._is(Kind.COMMA):
            self._current += 1
            items.append(read())
        return self._made(start, expressions.Tuple(items)) if is_tuple else items[0]

    def _expression(self) -> Node:
        value = self._or()
        if not self._is_word("if"):
            return value
        start = self._current
        self._current += 1
        test = self._or()
        if not self._is_word("else"):
            return self._made(start, expressions.Select(value, test))
        start = self._current
        self._current += 1
        return self._made(start, expressions.Ternary(test, value, self._expression()))

    def _or(self) -> Node:
        left = self._and()
        while self._is_word("or"):
            left = self._binary(left, self._next().value, self._and)
        return left

    def _and(self) -> Node:
        left = self._not()
        while self._is_word("and"):
            left = self._binary(left, self._next().value, self._not)
        return left

    def _binary(self, left: Node, operator: str, read: Callable[[], Node], back: int = 1) -> Node:
        start = self._current - back
        return self._made(start, expressions.Binary(operator, left, read()))

    def _not(self) -> Node:
        if not self._is_word("not"):
            return self._comparison()
        start = self._current
        operator = self._next().value
        return self._made(start, expressions.Unary(operator, self._not()))

    def _comparison(self) -> Node:
        left = self._additive()
        while True:
            if self._is_word("not") and self._is_word("in", 1):
                self._current += 2
                left = self._binary(left, "not in", self._additive, back=2)
            elif self._is_word("in") or self._is(Kind.COMPARISON):
                left = self._binary(left, self._next().value, self._additive)
            else:
                return left

    def _additive(self) -> Node:
        left = self._multiplicative()
        while self._is(Kind.ADDITIVE):
            left = self._binary(left, self._next().value, self._multiplicative)
        return left

    def _multiplicative(self) -> Node:
        left = self._test()
        while self._is(Kind.MULTIPLICATIVE):
            left = self._binary(left, self._next().value, self._test)
        return left

    def _test(self) -> Node:
        operand = self._filter()
        while self._is_word("is"):
            start = self._current
            self._current += 1
            negated = self._is_word("not")
            self._current += negated
            test = self._primary()
            if self._is(Kind.OPEN_PAREN):
                test = self._call(test)
            operand = self._made(start, expressions.Test(operand, negated, test))
        return operand

    def _filter(self) -> Node:
        operand = self._call_member()
        while self._is(Kind.PIPE):
            start = self._current
            self._current += 1
            filter = self._primary()
            if self._is(Kind.OPEN_PAREN):
                filter = self._call(filter)
            operand = self._made(start, expressions.Filter(operand, filter))
        return operand

    def _call_member(self) -> Node:
        member = self._member(self._primary())
        return self._call(member) if self._is(Kind.OPEN_PAREN) else member

    def _call(self, callee: Node) -> Node:
        start = self._current
        member = self._member(self._made(start, expressions.Call(callee, self._args())))
        return self._call(member) if self._is(Kind.OPEN_PAREN) else member

    def _args(self) -> list[Node]:
        self._expect(Kind.OPEN_PAREN, "(")
        args: list[Node] = []
        while not self._is(Kind.CLOSE_PAREN):
            start, token = self._current, self._peek()
            if token.kind is Kind.MULTIPLICATIVE and token.value == "*":
                self._current += 1
                args.append(self._made(start, expressions.Spread(self._expression())))
            else:
                args.append(self._keyword(self._expression()))
            if self._is(Kind.COMMA):
                self._current += 1
        self._current += 1
        return args

    def _keyword(self, key: Node) -> Node:
        if not self._is(Kind.EQUALS):
            return key
        start = self._current
        self._current += 1
        return self._made(start, expressions.KeywordArgument(key, self._expression()))

    def _member(self, owner: Node) -> Node:
        start = self._current
        while self._is(Kind.DOT) or self._is(Kind.OPEN_SQUARE):
            computed = self._next().kind is Kind.OPEN_SQUARE
            if computed:
                member = self._subscript()
                self._expect(Kind.CLOSE_SQUARE, "]")
            else:
                member = self._primary()
            owner = self._made(start, expressions.Member(owner, member, computed))
        return owner

    def _subscript(self) -> Node:
        start, parts, is_slice = self._current, list[Node | None](), False
        while not self._is(Kind.CLOSE_SQUARE):
            if self._is(Kind.COLON):
                parts.append(None)
                self._current += 1
                is_slice = True
            else:
                parts.append(self._expression())
                if self._is(Kind.COLON):
                    self._current += 1
                    is_slice = True
        if is_slice:
            first, second, third = (*parts, None, None, None)[:3]
            return self._made(start, expressions.Slice(first, second, third))
        return parts[0] if parts and parts[0] else self._made(start, statements.Nothing())

    def _primary(self) -> Node:
        start = self._current
        token = self._next()
        if token.kind is Kind.NUMBER:
            return self._made(start, expressions.Literal(self._number(token.value)))
        if token.kind is Kind.STRING:
            text = token.value
            while self._is(Kind.STRING):
                text += self._next().value
            return self._made(start, expressions.Literal(text.encode("latin-1")))
        if token.kind is Kind.IDENTIFIER:
            return self._made(start, expressions.Name(token.value))
        if token.kind is Kind.OPEN_PAREN:
            value = self._sequence()
            self._expect(Kind.CLOSE_PAREN, ")")
            return value
        if token.kind is Kind.OPEN_SQUARE:
            return self._made(start, expressions.Array(self._items(Kind.CLOSE_SQUARE)))
        if token.kind is Kind.OPEN_CURLY:
            return self._made(start, expressions.Object(self._pairs()))
        raise TemplateError(f"Unexpected token: {token.value} of type {token.kind.value}")

    def _number(self, text: str) -> int | float:
        if "." in text:
            return float(text)
        value = int(text)
        if not -(2**63) <= value < 2**63:
            raise TemplateError("stoll")
        return value

    def _items(self, closing: Kind) -> list[Node]:
        items: list[Node] = []
        while not self._is(closing):
            items.append(self._expression())
            if self._is(Kind.COMMA):
                self._current += 1
        self._current += 1
        return items

    def _pairs(self) -> list[tuple[Node, Node]]:
        pairs: list[tuple[Node, Node]] = []
        while not self._is(Kind.CLOSE_CURLY):
            key = self._expression()
            self._expect(Kind.COLON, ":")
            pairs.append((key, self._expression()))
            if self._is(Kind.COMMA):
                self._current += 1
        self._current += 1
        return pairs
