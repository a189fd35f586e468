"""The grammar (GBNF) of what a chat parser takes, written as llama.cpp's `peg-parser.cpp` does."""

from __future__ import annotations

from typing import Any

from handlers.chat_peg import (
    Chars,
    Choice,
    Literal,
    Parser,
    Repetition,
    Rule,
    Series,
    Space,
    Tagged,
    Through,
    Until,
    Whole,
)
from handlers.delimiters import states
from handlers.json_schema import Converter
from handlers.json_schema.rules import literal
from handlers.json_text import JsonBySchema

# What the chat parser takes for JSON; a schema's own rules may name none of these.
_JSON = {
    "json-array": '"[" space ("]" | json-value (space "," space json-value)* space "]")',
    "json-bool": '"true" | "false"',
    "json-null": '"null"',
    "json-number": '"-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? (("e" | "E") [+-]? [0-9]+)?',
    "json-object": (
        '"{" space ("}" | json-string space ":" space json-value'
        ' (space "," space json-string space ":" space json-value)* space "}")'
    ),
    "json-string": (
        r'"\"" ( [^"\\] | "\\" ( ["\\/ bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""'
    ),
    "json-value": "json-object | json-array | json-string | json-number | json-bool | json-null",
}  # fmt: skip
_ESCAPED = {"\n": r"\n", "\t": r"\t", "\r": r"\r"} | {char: "\\" + char for char in r"-[]\\"}


def grammar_of(parser: Parser, schema: dict[str, Any]) -> str:
    """The grammar of `parser`, whose JSON `schema` describes.

    Raises ValueError with the text of llama.cpp's converter for what it refuses in the schema.
    """
    try:
        return _Writer(schema).grammar(parser)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None


class _Writer:
    """Writes the rules of one grammar."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._converter = Converter()
        self._converter.collect_references(schema)
        self._add = self._converter.rules.add
        self._named: set[str] = set()

    def grammar(self, parser: Parser) -> str:
        """The whole grammar."""
        for name, text in _JSON.items():
            self._add(name, text)
        self._add("root", self._expression(parser))
        return self._converter.grammar()

    def _expression(self, parser: Parser) -> str:
        """What stands for a parser in a rule, empty for what takes no text; adds what it names."""
        match parser:
            case Literal(text):
                return literal(text)
            case Space():
                return "space"
            case Chars(pattern):
                return f"{pattern}+"
            case Series(parts):
                texts = (self._bracketed(part, Choice, Series) for part in parts)
                return " ".join(filter(None, texts))
            case Choice(parts):
                return " | ".join(self._bracketed(part, Choice) for part in parts)
            case Repetition(part, least, most):
                sign = {(0, 1): "?", (0, -1): "*", (1, -1): "+"}[least, most]
                return self._bracketed(part, Choice, Series) + sign
            case Until(delimiters, number):
                return self._until(delimiters, f"until-{number}")
            case Through(_, delimiter, number):
                return self._through(delimiter, f"ac-{number}")
            case Tagged(_, part) | Whole(part):
                return self._expression(part)
            case Rule(name, part):
                if name not in self._named:
                    self._named.add(name)
                    self._add(name, self._expression(part))
                return name
            case JsonBySchema(name, schema):
                return self._converter.convert(schema, name)
        return ""

    def _bracketed(self, part: Parser, *kinds: type[Parser]) -> str:
        """The same, in brackets if the parser is of one of these kinds and takes text."""
        text = self._expression(part)
        while isinstance(part, (Tagged, Whole)):
            part = part.part
        return f"({text})" if text and isinstance(part, kinds) else text

    # A text with or without a delimiter: a rule for each part of one that may have been read.

    def _until(self, delimiters: tuple[str, ...], name: str) -> str:
        """Any text that has none of the delimiters in it."""
        if not delimiters:
            return ".*"
        for state in states(delimiters):
            ways = ["", *(f"{_class(chars)} {_numbered(name, to)}" for to, chars in state.onward)]
            ways.append(f"{_class(state.noted, inverted=True)} {name}")
            self._add(_numbered(name, state.number), " | ".join(ways).strip())
        return name

    def _through(self, delimiter: str, name: str) -> str:
        """Any text up to the end of the first delimiter."""
        for state in states((delimiter,)):
            ways = [_class(state.ending)] if state.ending else []
            ways += [f"{_class(chars)} {_numbered(name, to)}" for to, chars in state.onward]
            ways.append(f"{_class(state.noted, inverted=True)} {name}")
            self._add(_numbered(name, state.number), " | ".join(ways))
        return name


def _numbered(name: str, state: int) -> str:
    return f"{name}-{state:02d}" if state else name


def _class(chars: list[str], *, inverted: bool = False) -> str:
    return f"[{'^' if inverted else ''}{''.join(map(_escaped, chars))}]"


def _escaped(char: str) -> str:
    point = ord(char)
    if char in _ESCAPED or 0x20 <= point <= 0x7E:
        return _ESCAPED.get(char, char)
    if point <= 0xFF:
        return f"\\x{point:02X}"
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
