"""Makes a chat's answer follow a JSON Schema: the grammar for it, and the parser that takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from generated import errors, wire
from generated.api_error import ApiError
from generated.jsontext import Json
from generated.requests.chat_completions import ChatCompletionsRequest
from handlers.chat_formats import Chat, ChatInputs, analysis, special_format, thought_parser
from handlers.chat_peg import SPACE, choice, content, end, prefix, seq, space
from handlers.json_schema import Converter, schema_to_grammar
from handlers.json_schema.rules import literal
from handlers.json_text import json_value

_FENCE = "```json", "```"
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


def wanted_schema(body: Json, request: ChatCompletionsRequest) -> Json:
    """The schema that `response_format` or `json_schema` asks for, None without one.

    Raises ApiError for an unknown format, and for a schema together with a grammar.
    """
    schema: Any = request.json_schema
    if schema is not None and request.grammar:
        raise errors.json_schema_and_grammar()
    if not wire.contains(body, "response_format"):
        return cast("Json", schema)
    given: Any = wire.value_or(body, "response_format", {}, _as_is)
    kind = wire.value_or(given, "type", "")
    if kind == "json_object":
        if wire.contains(given, "schema") or wire.is_empty(schema):
            schema = wire.value_or(given, "schema", {}, _as_is)
    elif kind == "json_schema":
        wrapper: Any = wire.value_or(given, "json_schema", {}, _as_is)
        schema = wire.value_or(wrapper, "schema", {}, _as_is)
    elif kind not in ("", "text"):
        raise errors.response_format_type(kind)
    return cast("Json", schema)


def constrained(inputs: ChatInputs, chat: Chat, schema: Json) -> Chat:
    """The chat whose answer follows `schema`; as it was for one that says nothing, as upstream.

    Raises ApiError, for a schema that has no grammar with upstream's text.
    """
    if not isinstance(schema, dict) or not schema:
        return chat
    if special_format(inputs.template.source):
        raise errors.field_deferred("response_format")
    marks = analysis(inputs.template)
    asked, start = inputs.generation_prompt(), marks.start
    opening = asked.partition(start.strip(SPACE))[0] if start.strip(SPACE) else asked
    parts = [literal(opening)] if asked else []
    parts.append("space")
    converter = Converter()
    try:
        converter.collect_references(schema)
        for name, text in _JSON.items():
            converter.rules.add(name, text)
        converter.rules.add("response-format", converter.convert(schema, "response-format-schema"))
        if inputs.extracts_reasoning and marks.mode != "none" and marks.end.strip(SPACE):
            name = _add_until(converter, marks.end)
            parts.append(f"({' '.join([*_loosely(start), name, *_loosely(marks.end)])})?")
        answer = "space response-format space"
        parts += ["space", f'("{_FENCE[0]}" {answer} "{_FENCE[1]}" | {answer})']
        converter.rules.add("root", " ".join(parts))
        grammar = converter.grammar()
    except RecursionError:
        raise errors.template_parser_failed("the schema is nested too deeply") from None
    except ValueError as error:
        raise errors.template_parser_failed(str(error)) from None
    said = content(json_value)
    fenced = seq(_FENCE[0], space, said, space, _FENCE[1])
    parser = seq(
        prefix(asked, start.strip(SPACE)),
        space,
        thought_parser(inputs, marks),
        space,
        choice(fenced, seq(space, said, space)),
        end,
    )
    return replace(chat, parser=parser, grammar=grammar)


def plain_grammar(schema: Json) -> str:
    """The grammar of an answer that is nothing but JSON; empty without a schema."""
    try:
        return "" if schema is None else schema_to_grammar(schema)
    except ValueError as error:
        raise ApiError(errors.INVALID_REQUEST, str(error)) from None


def _as_is(value: object) -> Any:
    return value


def _loosely(tag: str) -> Iterator[str]:
    """A tag, its white space at both ends optional."""
    bare = tag.strip(SPACE)
    if not tag:
        return
    before = tag.index(bare) if bare else len(tag)
    yield from (f"{literal(char)}?" for char in tag[:before])
    yield literal(bare)
    yield from (f"{literal(char)}?" for char in tag[before + len(bare) :])


def _add_until(converter: Converter, tag: str) -> str:
    """Rules for any text without the tag: one for each part of it that may have been read."""
    stop = tag.strip(SPACE)
    # Numbered as upstream's parser is, which makes the closing tag first.
    name = f"until-{4 + 3 * (len(tag) - len(stop))}"
    alphabet = sorted(set(stop))
    for state in range(len(stop)):
        reached = {char: _follows(stop, state, char) for char in alphabet}
        text = "|"
        for target in sorted({to for to in reached.values() if 0 < to < len(stop)}):
            chars = [char for char, to in reached.items() if to == target]
            text += f" {_class(chars)} {_numbered(name, target)} |"
        text += f" {_class([char for char, to in reached.items() if to], inverted=True)} {name}"
        converter.rules.add(_numbered(name, state), text)
    return name


def _follows(stop: str, state: int, char: str) -> int:
    """How much of `stop` the text ends with, after so much of it and one more character."""
    text = stop[:state] + char
    return next(n for n in range(len(text), -1, -1) if text.endswith(stop[:n]))


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
