"""Cuts a template into tokens, by the rules of llama.cpp's `jinja/lexer.cpp`."""

from dataclasses import dataclass
from enum import Enum

from handlers.jinja.errors import TemplateError, with_source

WHITESPACE = " \t\n\v\f\r"
_DIGITS = frozenset("0123456789")
_WORD = frozenset("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}


class Kind(Enum):
    """What a token is. The order is upstream's: parser errors name the number."""

    EOF = 0
    TEXT = 1
    NUMBER = 2
    STRING = 3
    IDENTIFIER = 4
    EQUALS = 5
    OPEN_PAREN = 6
    CLOSE_PAREN = 7
    OPEN_STATEMENT = 8
    CLOSE_STATEMENT = 9
    OPEN_EXPRESSION = 10
    CLOSE_EXPRESSION = 11
    OPEN_SQUARE = 12
    CLOSE_SQUARE = 13
    OPEN_CURLY = 14
    CLOSE_CURLY = 15
    COMMA = 16
    DOT = 17
    COLON = 18
    PIPE = 19
    CALL = 20
    ADDITIVE = 21
    MULTIPLICATIVE = 22
    COMPARISON = 23
    UNARY = 24
    COMMENT = 25


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `pos` is its first byte in the source."""

    kind: Kind
    value: str
    pos: int


# The first that matches wins.
_SYMBOLS = (
    ("{%-", Kind.OPEN_STATEMENT),
    ("-%}", Kind.CLOSE_STATEMENT),
    ("{{-", Kind.OPEN_EXPRESSION),
    ("-}}", Kind.CLOSE_EXPRESSION),
    ("{%", Kind.OPEN_STATEMENT),
    ("%}", Kind.CLOSE_STATEMENT),
    ("{{", Kind.OPEN_EXPRESSION),
    ("}}", Kind.CLOSE_EXPRESSION),
    ("(", Kind.OPEN_PAREN),
    (")", Kind.CLOSE_PAREN),
    ("{", Kind.OPEN_CURLY),
    ("}", Kind.CLOSE_CURLY),
    ("[", Kind.OPEN_SQUARE),
    ("]", Kind.CLOSE_SQUARE),
    (",", Kind.COMMA),
    (".", Kind.DOT),
    (":", Kind.COLON),
    ("|", Kind.PIPE),
    ("<=", Kind.COMPARISON),
    (">=", Kind.COMPARISON),
    ("==", Kind.COMPARISON),
    ("!=", Kind.COMPARISON),
    ("<", Kind.COMPARISON),
    (">", Kind.COMPARISON),
    ("+", Kind.ADDITIVE),
    ("-", Kind.ADDITIVE),
    ("~", Kind.ADDITIVE),
    ("*", Kind.MULTIPLICATIVE),
    ("/", Kind.MULTIPLICATIVE),
    ("%", Kind.MULTIPLICATIVE),
    ("=", Kind.EQUALS),
)
_BEFORE_TEXT = frozenset((Kind.CLOSE_STATEMENT, Kind.CLOSE_EXPRESSION, Kind.COMMENT))
_BEFORE_BINARY = frozenset(
    (Kind.IDENTIFIER, Kind.NUMBER, Kind.STRING, Kind.CLOSE_PAREN, Kind.CLOSE_SQUARE)
)


def normalized(source: str) -> str:
    """The source with plain line ends and without the last one; one character for each byte."""
    text = source.encode("utf-8", "surrogateescape").decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if source.endswith("\n") else text


def tokenize(source: str) -> list[Token]:
    """The tokens of a normalized source; raises TemplateError."""
    return _Lexer(source).tokens()


class _Lexer:
    def __init__(self, source: str) -> None:
        self._src = source
        self._pos = 0
        self._curly_depth = 0
        self._tokens: list[Token] = []

    def tokens(self) -> list[Token]:
        while self._pos < len(self._src):
            if self._last(Kind.CLOSE_STATEMENT) in _BEFORE_TEXT and self._text():
                continue
            if self._looking_at("{#"):
                self._comment()
                continue
            opening = self._last(Kind.CLOSE_STATEMENT) in (
                Kind.OPEN_EXPRESSION,
                Kind.OPEN_STATEMENT,
            )
            if opening and self._looking_at("-"):
                self._pos += 1
            while self._pos < len(self._src) and self._src[self._pos] in WHITESPACE:
                self._pos += 1
            if self._pos < len(self._src):
                self._code()
        return self._tokens

    def _last(self, otherwise: Kind) -> Kind:
        return self._tokens[-1].kind if self._tokens else otherwise

    def _looking_at(self, text: str, offset: int = 0) -> bool:
        return self._src.startswith(text, self._pos + offset)

    def _push(self, kind: Kind, value: str, pos: int) -> None:
        self._tokens.append(Token(kind, value, pos))

    def _fail(self, message: str) -> TemplateError:
        return TemplateError(with_source("lexer", message, self._src, self._pos))

    def _text(self) -> bool:
        """Take the text up to the next block, without what blocks strip; whether any is left."""
        src, start = self._src, self._pos
        before = src[start - 3 : start] if start > 3 else ""
        strips_line_end = before[1:] in ("#}", "%}", "-}")
        strips_after = before[:1] == "-" and before[1:] in ("#}", "%}", "}}")
        # A brace at the very end opens nothing.
        found = [p for p in (src.find(b, start) for b in ("{%", "{{", "{#")) if p >= 0]
        self._pos = end = min(found, default=len(src))
        if src[end : end + 2] in ("{%", "{#", "{-"):
            end = self._line_start(start, end)
        text = src[start:end]
        if strips_line_end and text.startswith("\n"):
            text = text[1:]
        if strips_after:
            text = text.lstrip(" \t\r\n")
        if self._pos < len(src) and self._looking_at("-", 2):
            text = text.rstrip(" \t\r\n")
        if text:
            self._push(Kind.TEXT, text, start)
        return bool(text)

    def _line_start(self, start: int, end: int) -> int:
        """Where the text ends if a block's line holds only blanks before it."""
        for current in range(end, start, -1):
            char = self._src[current - 1]
            if current == 1:
                return 0
            if char == "\n":
                return current
            if char not in WHITESPACE:
                break
        return end

    def _comment(self) -> None:
        start = self._pos
        end = self._src.find("#}", start + 2)
        if end < 0:
            self._pos = max(start + 2, len(self._src) - 2)
            raise self._fail("missing end of comment tag")
        self._push(Kind.COMMENT, self._src[start + 2 : end], start)
        self._pos = end + 2

    def _code(self) -> None:
        src, start = self._src, self._pos
        char = src[start]
        closing = char == "-" and src[start + 1 : start + 2] in ("%", "}")
        if char in "+-" and not closing:
            last = self._last(Kind.EOF)
            if last in (Kind.TEXT, Kind.EOF):
                raise self._fail(f"unexpected character: {char}")
            if last not in _BEFORE_BINARY:
                self._pos += 1
                number = self._number()
                self._push(Kind.NUMBER if number else Kind.UNARY, char + number, start)
                return
        for symbol, kind in _SYMBOLS:
            if symbol == "}}" and self._curly_depth > 0:
                continue
            if self._looking_at(symbol):
                self._count_braces(kind)
                self._push(kind, symbol, start)
                self._pos += len(symbol)
                return
        if char in "'\"":
            self._push(Kind.STRING, self._string(char), start)
        elif char in _DIGITS:
            self._push(Kind.NUMBER, self._number(), start)
        elif char in _WORD:
            self._push(Kind.IDENTIFIER, self._while_in(_WORD), start)
        else:
            raise self._fail(f"unexpected character: {char}")

    def _count_braces(self, kind: Kind) -> None:
        if kind is Kind.OPEN_EXPRESSION:
            self._curly_depth = 0
        elif kind is Kind.OPEN_CURLY:
            self._curly_depth += 1
        elif kind is Kind.CLOSE_CURLY:
            self._curly_depth = (self._curly_depth - 1) % 2**64

    def _number(self) -> str:
        number = self._while_in(_DIGITS)
        if self._looking_at(".") and self._src[self._pos + 1 : self._pos + 2] in _DIGITS:
            self._pos += 1
            number += "." + self._while_in(_DIGITS)
        return number

    def _while_in(self, chars: frozenset[str]) -> str:
        start = self._pos
        while self._pos < len(self._src) and self._src[self._pos] in chars:
            self._pos += 1
        return self._src[start : self._pos]

    def _string(self, quote: str) -> str:
        src = self._src
        self._pos += 1
        text = ""
        while True:
            if self._pos >= len(src):
                self._pos += 1
                raise self._fail("unexpected end of input during consume_while")
            char = src[self._pos]
            self._pos += 1
            if char == quote:
                return text
            if char == "\\":
                if self._pos >= len(src):
                    raise self._fail("unexpected end of input after escape character")
                char = src[self._pos]
                self._pos += 1
                if char not in _ESCAPES:
                    raise self._fail(f"unknown escape character \\{char}")
                char = _ESCAPES[char]
            text += char
