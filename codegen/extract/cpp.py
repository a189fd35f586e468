"""A tokenizer for the C++ that llama.cpp is written in: enough to read declarations and calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["id", "num", "str", "chr", "punct"]

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(OPENERS.values())


class CppError(Exception):
    """Text that can't be tokenized or whose brackets don't match, with its line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `text` as spelt, `value` the decoded text of a string literal."""

    kind: Kind
    text: str
    line: int
    off: bool
    """Inside `#if 0`, so no compiler sees it."""
    value: str = ""
    gap: bool = False
    """White space stands before it."""


@dataclass(frozen=True)
class Source:
    """The tokens of one file, with `path` relative to the tree it came from."""

    path: str
    tokens: tuple[Token, ...]
    directives: tuple[str, ...] = ()
    """The preprocessor lines, without `#include` and `#pragma`."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Token:
        return self.tokens[index]

    def text(self, index: int) -> str:
        """The spelling of the token at `index`, or "" outside the file."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def matches(self, index: int, *texts: str) -> bool:
        """Whether the tokens from `index` are spelt so."""
        return all(self.text(index + n) == text for n, text in enumerate(texts))

    def find(self, *texts: str, start: int = 0, end: int | None = None) -> Iterator[int]:
        """The positions from `start` up to `end` where tokens are spelt so."""
        stop = len(self.tokens) if end is None else min(end, len(self.tokens))
        first, *others = texts
        for i in range(start, stop):
            if self.tokens[i].text == first and (not others or self.matches(i + 1, *others)):
                yield i

    def close(self, index: int) -> int:
        """The position of the bracket that closes the one at `index`."""
        return self._pairs[index]

    def open(self, index: int) -> int:
        """The position of the bracket that the one at `index` closes."""
        return self._pairs[index]

    def closes(self, index: int) -> bool:
        """Whether the bracket at `index` has a partner."""
        return index in self._pairs

    def check(self) -> None:
        """Raise CppError unless every bracket has its partner."""
        _ = self._pairs

    @cached_property
    def live(self) -> Source:
        """The same file without what `#if 0` leaves out."""
        return Source(self.path, tuple(token for token in self.tokens if not token.off))

    @cached_property
    def _pairs(self) -> dict[int, int]:
        return pair_brackets(self.tokens)

    def slice(self, start: int, end: int) -> tuple[Token, ...]:
        """The tokens from `start` up to `end`."""
        return self.tokens[start:end]

    def snippet(self, index: int, count: int = 14) -> str:
        """The text at `index`, for a message: up to the end of a statement, or `count` tokens."""
        end = next(self.find(";", start=index, end=index + count), index + count)
        return spell(self.tokens[index:end])

    def split(self, start: int, end: int, separator: str = ",") -> list[tuple[int, int]]:
        """The spans between separators that stand in no bracket, from `start` up to `end`."""
        spans: list[tuple[int, int]] = []
        begin = i = start
        while i < end:
            text = self.tokens[i].text
            if text in OPENERS and self.closes(i):
                i = self.close(i)
            elif text == separator:
                spans.append((begin, i))
                begin = i + 1
            i += 1
        if begin < end:
            spans.append((begin, end))
        return spans


def read_source(path: str, text: str) -> Source:
    """Tokenize `text`; raises CppError."""
    directives: list[str] = []
    tokens = tuple(tokenize(text, directives))
    kept = tuple(line for line in directives if not line.startswith(_NO_FACTS))
    source = Source(path, tokens, kept)
    source.check()
    return source


_NO_FACTS = ("include", "pragma")
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\\\n)
  | (?P<line>//[^\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<raw>(?:u8|u|U|L)?R"(?P<mark>[^()\\\s]{0,16})\((?P<body>.*?)\)(?P=mark)")
  | (?P<str>(?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*")
  | (?P<chr>(?:u8|u|U|L)?'(?:[^'\\\n]|\\.)+')
  | (?P<num>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
  | (?P<id>[A-Za-z_]\w*)
  | (?P<punct>->|::|\.\.\.|<=|>=|==|!=|&&|\|\||<<=|<<|\+=|-=|\*=|/=|%=|\|=|&=|\^=|\+\+|--|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str, directives: list[str] | None = None) -> Iterator[Token]:
    """The tokens of `text` without comments; preprocessor lines are added to `directives`."""
    conditions: list[bool] = []  # for each open #if, whether its present branch is left out
    line = 1
    position = 0
    start_of_line = True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CppError(line, f"can't tokenize {text[position : position + 20]!r}")
        kind = match.lastgroup if match.lastgroup not in ("mark", "body") else "raw"
        spelling = match.group()
        if kind == "punct" and spelling == "#" and start_of_line:
            directive, length = _directive(text[position:])
            _apply(directive, conditions, line)
            if directives is not None:
                directives.append(directive)
            line += text.count("\n", position, position + length)
            position += length
            continue
        if kind in ("str", "raw", "chr", "num", "id", "punct"):
            if kind == "punct" and spelling in ('"', "'"):
                raise CppError(line, f"unterminated literal {text[position : position + 20]!r}")
            value = ""
            if kind == "str":
                value = unescape(spelling[spelling.index('"') + 1 : -1])
            elif kind == "raw":
                value = match.group("body")
                kind = "str"
            gap = text[position - 1 : position].isspace()
            yield Token(kind, spelling, line, any(conditions), value, gap)  # type: ignore[arg-type]
            start_of_line = False
        if "\n" in spelling:
            start_of_line = kind == "space" or start_of_line
        line += spelling.count("\n")
        position = match.end()
    if conditions:
        raise CppError(line, "an #if without #endif")


def _directive(text: str) -> tuple[str, int]:
    """A preprocessor line with its continuations, and its length without the line's end."""
    match = re.match(r"(?:[^\n\\]|\\.)*", text, re.DOTALL)
    length = match.end() if match else 0
    body = re.sub(r"//.*|/\*.*?\*/", "", text[:length].replace("\\\n", " "), flags=re.DOTALL)
    return " ".join(body[1:].split()), length


def _apply(directive: str, conditions: list[bool], line: int) -> None:
    word = directive.split(" ", 1)[0]
    if word in ("if", "ifdef", "ifndef"):
        conditions.append(directive == "if 0")
    elif word in ("else", "elif", "endif"):
        if not conditions:
            raise CppError(line, f"#{word} without #if")
        conditions.pop()
        # The other branch of `#if 0` is compiled; so may be both branches of any other #if.
        if word == "elif":
            conditions.append(directive == "elif 0")
        elif word == "else":
            conditions.append(False)


def pair_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Partners of every bracket, both ways; what `#if 0` leaves out may stay unpaired."""
    pairs: dict[int, int] = {}
    live: list[int] = []
    off: list[int] = []
    was_off = False
    for index, token in enumerate(tokens):
        if token.off != was_off:
            off.clear()
            was_off = token.off
        stack = off if token.off else live
        if token.kind != "punct":
            continue
        if token.text in OPENERS:
            stack.append(index)
        elif token.text in CLOSERS:
            if stack and OPENERS[tokens[stack[-1]].text] == token.text:
                opener = stack.pop()
                pairs[opener] = index
                pairs[index] = opener
            elif not token.off:
                raise CppError(token.line, _mismatch(token, tokens[stack[-1]] if stack else None))
    if live:
        raise CppError(tokens[live[-1]].line, f"{tokens[live[-1]].text!r} is never closed")
    return pairs


def _mismatch(token: Token, opener: Token | None) -> str:
    if opener is None:
        return f"{token.text!r} closes nothing"
    return f"{token.text!r} stands where {opener.text!r} of line {opener.line} is to be closed"


_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "\\": "\\", '"': '"', "'": "'", "?": "?",
}  # fmt: skip


def unescape(text: str) -> str:
    """The value of a string literal's inside."""

    def one(match: re.Match[str]) -> str:
        body = match.group(1)
        if body[0] in "xuU" and len(body) > 1:
            return chr(int(body[1:], 16))
        if body[0] in "01234567" and len(body) > 1:
            return chr(int(body, 8))
        return _ESCAPES.get(body, body)

    return re.sub(
        r"\\(x[0-9A-Fa-f]+|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-7]{1,3}|.)",
        one,
        text,
        flags=re.DOTALL,
    )


_NO_SPACE_AFTER = frozenset(("(", "[", ".", "->", "::", "!", "~", "{", "++", "--"))
_NO_SPACE_BEFORE = frozenset((")", "]", ",", ";", ".", "->", "::", "(", "[", "}", "++"))
_SPACED = frozenset("+-*/%?:=<&|,") | {"==", "!=", "&&", "||", "<=", ">=", "return", "if", "for"}
_OPERATORS = frozenset("+-*/%?:=<>&|^!~,") | {"==", "!=", "&&", "||", "<=", ">=", "return"}


def spell(tokens: Iterable[Token]) -> str:
    """The tokens as one line, spaced the same however the source was laid out."""
    out: list[str] = []
    before = ""
    unary = template = False
    for token in tokens:
        text = token.text
        if out:
            tight = (
                before in _NO_SPACE_AFTER
                or (before == "<" and template)
                or unary
                or (text in _NO_SPACE_BEFORE and not (text in ("(", "[") and before in _SPACED))
                or (text in ("<", ">") and not token.gap)
                or (text == "{" and (before == ">" or before[-1].isalnum()))
            )
            if not tight:
                out.append(" ")
        unary = text in ("-", "+", "&", "*") and (
            not before or before in _OPERATORS or before in OPENERS
        )
        template = text == "<" and not token.gap
        out.append(text)
        before = text
    return "".join(out)


def literal(tokens: Sequence[Token]) -> str | None:
    """The value of string literals that stand side by side, or None if anything else is there."""
    if tokens and all(token.kind == "str" for token in tokens):
        return "".join(token.value for token in tokens)
    return None
