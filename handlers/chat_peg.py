"""Small parsers for what a model says in a chat, put together as llama.cpp's `peg-parser.cpp` does.

A parser takes a text and a position. Text that may go on is no failure: where it ends inside
something, the result is MORE, with what was found so far. Parsers are plain values, of which
`handlers.chat_grammar` makes the grammar that lets a model say nothing else.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Status(Enum):
    """How a parser ended."""

    FAIL = "fail"
    OK = "ok"
    MORE = "more"


class Span(NamedTuple):
    """A piece of the text that means something: `reasoning` or `content`."""

    tag: str
    start: int
    end: int


class Result(NamedTuple):
    """How a parser ended, where, and what it found."""

    status: Status
    end: int
    spans: tuple[Span, ...] = ()


class Parser(ABC):
    """Called with a text and a position, it says what is there."""

    @abstractmethod
    def __call__(self, text: str, pos: int) -> Result:
        """Parse from `pos` on."""


SPACE = " \t\n\v\f\r"
_NO_SPACE = re.compile(f"[^{SPACE}]")


@dataclass(frozen=True)
class Epsilon(Parser):
    """Nothing; always there."""

    def __call__(self, text: str, pos: int) -> Result:
        return Result(Status.OK, pos)


@dataclass(frozen=True)
class End(Parser):
    """The end of the text."""

    def __call__(self, text: str, pos: int) -> Result:
        return Result(Status.OK if pos >= len(text) else Status.FAIL, pos)


@dataclass(frozen=True)
class Space(Parser):
    """White space, also none."""

    def __call__(self, text: str, pos: int) -> Result:
        match = _NO_SPACE.search(text, pos)
        return Result(Status.OK, match.start() if match else len(text))


@dataclass(frozen=True)
class Literal(Parser):
    """That text."""

    text: str

    def __call__(self, text: str, pos: int) -> Result:
        if text.startswith(self.text, pos):
            return Result(Status.OK, pos + len(self.text))
        if self.text.startswith(text[pos:]):
            return Result(Status.MORE, len(text))
        return Result(Status.FAIL, pos)


@dataclass(frozen=True)
class Chars(Parser):
    """At least one character of a class, as many as there are."""

    pattern: str
    """The class in brackets, as grammars and regular expressions have it."""

    def __call__(self, text: str, pos: int) -> Result:
        match = re.compile(self.pattern + "+").match(text, pos)
        if match:
            return Result(Status.OK, match.end())
        return Result(Status.MORE if pos >= len(text) else Status.FAIL, pos)


@dataclass(frozen=True)
class Series(Parser):
    """One after the other."""

    parts: tuple[Parser, ...]

    def __call__(self, text: str, pos: int) -> Result:
        spans: tuple[Span, ...] = ()
        for parser in self.parts:
            result = parser(text, pos)
            if result.status is Status.FAIL:
                return Result(Status.FAIL, result.end)
            spans += result.spans
            if result.status is Status.MORE:
                return Result(Status.MORE, result.end, spans)
            pos = result.end
        return Result(Status.OK, pos, spans)


@dataclass(frozen=True)
class Choice(Parser):
    """The first that doesn't fail."""

    parts: tuple[Parser, ...]

    def __call__(self, text: str, pos: int) -> Result:
        for parser in self.parts:
            result = parser(text, pos)
            if result.status is not Status.FAIL:
                return result
        return Result(Status.FAIL, pos)


@dataclass(frozen=True)
class Repetition(Parser):
    """Several times, at most `most` unless that is -1. At the end of the text, no more."""

    part: Parser
    least: int
    most: int

    def __call__(self, text: str, pos: int) -> Result:
        spans: tuple[Span, ...] = ()
        count = 0
        while count != self.most and pos < len(text):
            result = self.part(text, pos)
            if result.status is Status.MORE:
                return Result(Status.MORE, result.end, spans + result.spans)
            if result.status is Status.FAIL or result.end == pos:
                break
            spans += result.spans
            pos = result.end
            count += 1
        if count < self.least:
            return Result(Status.MORE, pos, spans) if pos >= len(text) else Result(Status.FAIL, pos)
        return Result(Status.OK, pos, spans)


@dataclass(frozen=True)
class Until(Parser):
    """Text up to the first of the delimiters, or up to what may become one at the end."""

    delimiters: tuple[str, ...]
    number: int = 0
    """Upstream's number of this parser, which the rules of a grammar are named by."""

    def __call__(self, text: str, pos: int) -> Result:
        found = [at for delimiter in self.delimiters if (at := text.find(delimiter, pos)) >= 0]
        found += [at for delimiter in self.delimiters if (at := _begun(text, pos, delimiter)) >= 0]
        if found:
            return Result(Status.OK, min(found))
        return Result(Status.MORE, len(text))


@dataclass(frozen=True)
class Through(Parser):
    """Parsed as `part`; a grammar takes everything up to the end of the first delimiter."""

    part: Parser
    delimiter: str
    number: int
    """Upstream's number of this parser."""

    def __call__(self, text: str, pos: int) -> Result:
        return self.part(text, pos)


@dataclass(frozen=True)
class Ahead(Parser):
    """That this comes next, without taking it."""

    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        return Result(self.part(text, pos).status, pos)


@dataclass(frozen=True)
class Absent(Parser):
    """That this doesn't come next."""

    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        turned = {Status.OK: Status.FAIL, Status.FAIL: Status.OK, Status.MORE: Status.MORE}
        return Result(turned[self.part(text, pos).status], pos)


@dataclass(frozen=True)
class Whole(Parser):
    """Nothing of it counts before all of it is there."""

    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        result = self.part(text, pos)
        return result._replace(spans=()) if result.status is Status.MORE else result


@dataclass(frozen=True)
class Unasked(Parser):
    """Taken where it is there, but no grammar asks a model for it."""

    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        return self.part(text, pos)


@dataclass(frozen=True)
class Tagged(Parser):
    """What counts as a part of the message."""

    tag: str
    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        result = self.part(text, pos)
        if result.status is Status.FAIL:
            return result
        return result._replace(spans=(Span(self.tag, pos, result.end), *result.spans))


@dataclass(frozen=True)
class Rule(Parser):
    """The same as `part`, with a name of its own in a grammar."""

    name: str
    part: Parser

    def __call__(self, text: str, pos: int) -> Result:
        return self.part(text, pos)


eps, end, space = Epsilon(), End(), Space()


def lit(literal: str) -> Parser:
    """That text."""
    return Literal(literal)


def seq(*parts: Parser | str) -> Parser:
    """One after the other."""
    flat: list[Parser] = []
    for part in map(_parser, parts):
        flat += part.parts if isinstance(part, Series) else [part]
    return flat[0] if len(flat) == 1 else Series(tuple(flat))


def choice(*parts: Parser | str) -> Parser:
    """The first that doesn't fail."""
    return Choice(tuple(map(_parser, parts)))


def repeat(part: Parser | str, least: int = 0, most: int = -1) -> Parser:
    """Several times; without `most`, as often as it's there. At the end of the text, no more."""
    return Repetition(_parser(part), least, most)


def optional(*parts: Parser | str) -> Parser:
    """That sequence, or nothing."""
    return repeat(seq(*parts), most=1)


def until(*delimiters: str, number: int = 0) -> Parser:
    """Text up to the first of the delimiters, or up to what may become one at the end."""
    return Until(delimiters, number)


rest = until()
"""Everything up to the end, which is never known to be reached."""


def ahead(part: Parser | str) -> Parser:
    """That this comes next, without taking it."""
    return Ahead(_parser(part))


def absent(part: Parser | str) -> Parser:
    """That this doesn't come next."""
    return Absent(_parser(part))


def whole(part: Parser | str) -> Parser:
    """Nothing of it counts before all of it is there."""
    return Whole(_parser(part))


def rule(name: str, *parts: Parser | str) -> Parser:
    """That sequence, with a name of its own in a grammar."""
    return Rule(name, seq(*parts))


def loosely(tag: str) -> Parser:
    """A tag whose white space at both ends may be missing."""
    bare = tag.strip(SPACE)
    before = tag[: len(tag) - len(tag.lstrip(SPACE))] if bare else tag
    after = tag[len(before) + len(bare) :]
    return seq(*map(optional, before), lit(bare), *map(optional, after))


def prefix(text: str, delimiter: str = "") -> Parser:
    """A text up to where the delimiter begins in it."""
    return lit(text.partition(delimiter)[0] if delimiter else text)


def reasoning(*parts: Parser | str) -> Parser:
    """What the model thought."""
    return Tagged("reasoning", seq(*parts))


def content(*parts: Parser | str) -> Parser:
    """What the model answers."""
    return Tagged("content", seq(*parts))


def spaced(parts: Sequence[Parser | str]) -> Parser:
    """One after the other, with any white space between them."""
    joined: list[Parser | str] = list(parts[:1])
    for part in parts[1:]:
        joined += [space, part]
    return seq(*joined)


def _begun(text: str, pos: int, delimiter: str) -> int:
    """Where the text's end begins the delimiter; -1 if it doesn't."""
    for length in range(min(len(delimiter) - 1, len(text) - pos), 0, -1):
        if text.endswith(delimiter[:length]):
            return len(text) - length
    return -1


def _parser(part: Parser | str) -> Parser:
    return lit(part) if isinstance(part, str) else part
