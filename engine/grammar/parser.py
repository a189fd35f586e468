"""Reads GBNF, llama.cpp's notation for grammars, with its limits and its refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.grammar.left_recursion import left_recursive
from engine.grammar.rules import ALT, END, Element, Grammar, GrammarError, Kind, Rule
from engine.grammar.source import Source

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab

_MOST_REPETITIONS = 2000


def parse_grammar(text: str, vocab: Vocab | None, root: str = "root") -> Grammar:
    """The rules of a GBNF grammar; `vocab` is asked about tokens written as `<name>`.

    Raises GrammarError. Its `detail` is the text that llama.cpp logs, where it has one.
    """
    parser = _Parser(Source(text.encode(errors="surrogateescape"), vocab))
    parser.parse()
    names = tuple(parser.numbers)
    if not parser.rules:
        raise GrammarError("the grammar has no rules")
    if root not in parser.numbers:
        raise GrammarError(f"grammar does not contain a '{root}' symbol")
    rules = tuple(parser.rules[number] for number in range(len(parser.rules)))
    looping = left_recursive(rules)
    if looping is not None:
        raise GrammarError(
            "unsupported grammar, left recursion detected for nonterminal at index "
            f"{looping} ({names[looping]})"
        )
    return Grammar(rules, names, parser.numbers[root])


@dataclass(slots=True)
class _Open:
    """A rule or a group that is being read."""

    number: int
    numbered_before: int
    elements: list[Element] = field(default_factory=list)
    # Where the item begins that a repetition would repeat, and how many rules it stands for.
    item: int = 0
    n_rules: int = 1

    def add(self, *elements: Element) -> None:
        """Put an item's elements behind what was read."""
        self.item = len(self.elements)
        self.n_rules = 1
        self.elements += elements


class _Parser:
    """One pass over the text; groups are kept on a list, so that nesting has no limit."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.numbers: dict[str, int] = {}
        self.rules: dict[int, Rule] = {}
        self._name = ""

    def parse(self) -> None:
        source = self._source
        source.skip_space(newlines=True)
        while not source.at_end():
            self._rule()
        self._check_defined()

    def _check_defined(self) -> None:
        for number in range(max(self.rules, default=-1) + 1):
            if number not in self.rules:
                raise GrammarError("Undefined rule")
            for element in self.rules[number]:
                if element.kind == Kind.RULE and element.value not in self.rules:
                    name = next(n for n, value in self.numbers.items() if value == element.value)
                    raise GrammarError(f"Undefined rule identifier '{name}'")

    def _rule(self) -> None:
        source = self._source
        self._name = source.name()
        source.skip_space(newlines=False)
        number = self._number(self._name)
        if not source.take(b"::="):
            raise source.error("expecting ::= at ")
        source.skip_space(newlines=True)
        self._alternatives(number)
        ended = source.take(b"\r\n") or source.take(b"\r") or source.take(b"\n")
        if not ended and not source.at_end():
            raise source.error("expecting newline or end at ")
        source.skip_space(newlines=True)

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def _number_new(self) -> int:
        number = len(self.numbers)
        self.numbers[f"{self._name}_{number}"] = number
        return number

    def _alternatives(self, number: int) -> None:
        source = self._source
        opened = [_Open(number, len(self.numbers))]
        while True:
            current, nested = opened[-1], len(opened) > 1
            if source.take(b"|"):
                source.skip_space(newlines=True)
                current.elements.append(ALT)
                current.item, current.n_rules = len(current.elements), 1
            elif source.take(b"("):
                source.skip_space(newlines=True)
                before = len(self.numbers)
                opened.append(_Open(self._number_new(), before))
            elif nested and source.take(b")"):
                self._close(opened.pop())
                around = opened[-1]
                around.add(Element(Kind.RULE, current.number))
                around.n_rules = max(1, len(self.numbers) - current.numbered_before)
                source.skip_space(newlines=len(opened) > 1)
            elif not self._item(current, nested):
                if nested:
                    raise source.error("expecting ')' at ")
                self._close(current)
                return

    def _close(self, done: _Open) -> None:
        self.rules[done.number] = (*done.elements, END)

    def _item(self, current: _Open, nested: bool) -> bool:
        """Read a literal, set, token, reference or repetition; whether there was one."""
        source = self._source
        if source.take(b'"'):
            current.add(*(Element(Kind.CHAR, point) for point in source.literal()))
        elif source.take(b"["):
            current.add(*self._set())
        elif source.peek() in (b"<", b"!"):
            kind = Kind.TOKEN_NOT if source.take(b"!") else Kind.TOKEN
            current.add(Element(kind, source.token()))
        elif source.at_word():
            current.add(Element(Kind.RULE, self._number(source.name())))
        elif source.take(b"."):
            current.add(Element(Kind.CHAR_ANY))
        else:
            return self._repetition(current, nested)
        source.skip_space(newlines=nested)
        return True

    def _set(self) -> list[Element]:
        source = self._source
        kind = Kind.CHAR_NOT if source.take(b"^") else Kind.CHAR
        elements: list[Element] = []
        while not source.take(b"]"):
            elements.append(Element(Kind.CHAR_ALT if elements else kind, source.character()))
            if source.peek() == b"-" and source.peek(1) != b"]":
                source.take(b"-")
                elements.append(Element(Kind.CHAR_UPPER, source.character()))
        return elements

    def _repetition(self, current: _Open, nested: bool) -> bool:
        source = self._source
        least, most = 0, None
        if source.take(b"*"):
            source.skip_space(newlines=nested)
        elif source.take(b"+"):
            source.skip_space(newlines=nested)
            least = 1
        elif source.take(b"?"):
            source.skip_space(newlines=nested)
            most = 1
        elif source.take(b"{"):
            least, most = self._bounds(nested)
        else:
            return False
        self._repeat(current, least, most)
        return True

    def _bounds(self, nested: bool) -> tuple[int, int | None]:
        source = self._source
        source.skip_space(newlines=nested)
        if not source.peek().isdigit():
            raise source.error("expecting an int at ")
        least = source.integer("stoull")
        source.skip_space(newlines=nested)
        most: int | None = least
        if not source.take(b"}"):
            if not source.take(b","):
                raise source.error("expecting ',' at ")
            source.skip_space(newlines=nested)
            most = None
            if source.peek().isdigit():
                most = source.integer("stoull")
                source.skip_space(newlines=nested)
            if not source.take(b"}"):
                raise source.error("expecting '}' at ")
        source.skip_space(newlines=nested)
        if least > _MOST_REPETITIONS:
            raise GrammarError(
                "number of repetitions exceeds sane defaults, please reduce the number of "
                "repetitions"
            )
        if most is not None and most > _MOST_REPETITIONS:
            most = None
        # The reference counts from there up to 2^64 and runs out of memory.
        if most is not None and most < least:
            raise GrammarError(f"at most {most} repetitions is less than at least {least}")
        return least, most

    def _repeat(self, current: _Open, least: int, most: int | None) -> None:
        """Write x{m,n} out as m times x and then a rule for each optional one more."""
        repeated = current.elements[current.item :]
        if not repeated:
            raise self._source.error("expecting preceding item to */+/?/{ at ")
        times = most or least or 1
        if current.n_rules * times >= _MOST_REPETITIONS:
            raise GrammarError(
                "number of rules that are going to be repeated multiplied by the new repetition "
                "exceeds sane defaults, please reduce the number of repetitions or rule complexity"
            )
        current.elements[current.item :] = repeated * least
        last: int | None = None
        for _ in range(1 if most is None else most - least):
            number = self._number_new()
            following = number if most is None else last
            more = [] if following is None else [Element(Kind.RULE, following)]
            self.rules[number] = (*repeated, *more, ALT, END)
            last = number
        if last is not None:
            current.elements.append(Element(Kind.RULE, last))
        current.n_rules *= times
