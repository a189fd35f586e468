"""Small parsers for what a model says in a chat, put together as llama.cpp's `peg-parser.cpp` does.

A parser takes a text and a position. Text that may go on is no failure: where it ends inside
something, the result is MORE, with what was found so far.
"""

import re
from collections.abc import Callable, Sequence
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


Parser = Callable[[str, int], Result]

SPACE = " \t\n\v\f\r"
_NO_SPACE = re.compile(f"[^{SPACE}]")


def eps(text: str, pos: int) -> Result:
    """Nothing; always there."""
    return Result(Status.OK, pos)


def end(text: str, pos: int) -> Result:
    """The end of the text."""
    return Result(Status.OK if pos >= len(text) else Status.FAIL, pos)


def space(text: str, pos: int) -> Result:
    """White space, also none."""
    match = _NO_SPACE.search(text, pos)
    return Result(Status.OK, match.start() if match else len(text))


def lit(literal: str) -> Parser:
    """That text."""

    def parse(text: str, pos: int) -> Result:
        if text.startswith(literal, pos):
            return Result(Status.OK, pos + len(literal))
        if literal.startswith(text[pos:]):
            return Result(Status.MORE, len(text))
        return Result(Status.FAIL, pos)

    return parse


def seq(*parts: Parser | str) -> Parser:
    """One after the other."""
    parsers = [_parser(part) for part in parts]

    def parse(text: str, pos: int) -> Result:
        spans: tuple[Span, ...] = ()
        for parser in parsers:
            result = parser(text, pos)
            if result.status is Status.FAIL:
                return Result(Status.FAIL, result.end)
            spans += result.spans
            if result.status is Status.MORE:
                return Result(Status.MORE, result.end, spans)
            pos = result.end
        return Result(Status.OK, pos, spans)

    return parse


def choice(*parts: Parser | str) -> Parser:
    """The first that doesn't fail."""
    parsers = [_parser(part) for part in parts]

    def parse(text: str, pos: int) -> Result:
        for parser in parsers:
            result = parser(text, pos)
            if result.status is not Status.FAIL:
                return result
        return Result(Status.FAIL, pos)

    return parse


def repeat(part: Parser | str, least: int = 0, most: int = -1) -> Parser:
    """Several times; without `most`, as often as it's there. At the end of the text, no more."""
    parser = _parser(part)

    def parse(text: str, pos: int) -> Result:
        spans: tuple[Span, ...] = ()
        count = 0
        while count != most and pos < len(text):
            result = parser(text, pos)
            if result.status is Status.MORE:
                return Result(Status.MORE, result.end, spans + result.spans)
            if result.status is Status.FAIL or result.end == pos:
                break
            spans += result.spans
            pos = result.end
            count += 1
        if count < least:
            return Result(Status.MORE, pos, spans) if pos >= len(text) else Result(Status.FAIL, pos)
        return Result(Status.OK, pos, spans)

    return parse


def optional(*parts: Parser | str) -> Parser:
    """That sequence, or nothing."""
    return repeat(seq(*parts), most=1)


def until(*delimiters: str) -> Parser:
    """Text up to the first of the delimiters, or up to what may become one at the end."""

    def parse(text: str, pos: int) -> Result:
        found = [at for delimiter in delimiters if (at := text.find(delimiter, pos)) >= 0]
        found += [at for delimiter in delimiters if (at := _begun(text, pos, delimiter)) >= 0]
        if found:
            return Result(Status.OK, min(found))
        return Result(Status.MORE, len(text))

    return parse


def _begun(text: str, pos: int, delimiter: str) -> int:
    """Where the text's end begins the delimiter; -1 if it doesn't."""
    for length in range(min(len(delimiter) - 1, len(text) - pos), 0, -1):
        if text.endswith(delimiter[:length]):
            return len(text) - length
    return -1


rest = until()
"""Everything up to the end, which is never known to be reached."""


def ahead(part: Parser | str) -> Parser:
    """That this comes next, without taking it."""
    parser = _parser(part)
    return lambda text, pos: Result(parser(text, pos).status, pos)


def absent(part: Parser | str) -> Parser:
    """That this doesn't come next."""
    parser = _parser(part)
    turned = {Status.OK: Status.FAIL, Status.FAIL: Status.OK, Status.MORE: Status.MORE}
    return lambda text, pos: Result(turned[parser(text, pos).status], pos)


def whole(part: Parser | str) -> Parser:
    """Nothing of it counts before all of it is there."""
    parser = _parser(part)

    def parse(text: str, pos: int) -> Result:
        result = parser(text, pos)
        return result._replace(spans=()) if result.status is Status.MORE else result

    return parse


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
    return _tagged("reasoning", seq(*parts))


def content(*parts: Parser | str) -> Parser:
    """What the model answers."""
    return _tagged("content", seq(*parts))


def _tagged(tag: str, parser: Parser) -> Parser:
    def parse(text: str, pos: int) -> Result:
        result = parser(text, pos)
        if result.status is Status.FAIL:
            return result
        return result._replace(spans=(Span(tag, pos, result.end), *result.spans))

    return parse


def spaced(parts: Sequence[Parser | str]) -> Parser:
    """One after the other, with any white space between them."""
    joined: list[Parser | str] = list(parts[:1])
    for part in parts[1:]:
        joined += [space, part]
    return seq(*joined)


def _parser(part: Parser | str) -> Parser:
    return lit(part) if isinstance(part, str) else part
