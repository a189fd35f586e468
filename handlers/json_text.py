"""Recognises JSON in a model's answer while it is written, as llama.cpp's chat parser does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from handlers.chat_peg import Parser, Result, Status

_SPACE = re.compile(r"[ \t\n\v\f\r]*")
_STRING = re.compile(r'"(?:[^"\\]|\\(?:["\\/bfnrt ]|u[0-9a-fA-F]{4}))*+("?)')
_UNFINISHED_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_GOES_ON = re.compile(r"[0-9.eE+-]")
_WORDS = ("true", "false", "null")
_MORE, _FAIL = -1, -2  # in place of an end


@dataclass(frozen=True)
class JsonBySchema(Parser):
    """A JSON value; a grammar lets only what the schema describes be said."""

    name: str
    """The schema's rule in a grammar."""
    schema: dict[str, Any] = field(hash=False)

    def __call__(self, text: str, pos: int) -> Result:
        return json_value(text, pos)


def json_value(text: str, pos: int) -> Result:
    """A JSON value; MORE where the text ends inside it, or could go on with a number."""
    opened: list[str] = []  # the brackets that close what is open
    at, wants = pos, "value"
    while True:
        if at >= len(text):
            return Result(Status.MORE, len(text))
        char = text[at]
        if wants in ("value", "value or end") and char in "[{":
            opened.append("]" if char == "[" else "}")
            at, wants = at + 1, "value or end" if char == "[" else "key or end"
        elif wants.endswith("or end") and char == opened[-1]:
            opened.pop()
            at, wants = at + 1, "next"
        elif wants.startswith("value"):
            at, wants = _scalar(text, at), "next"
        elif wants.startswith("key"):
            at, wants = _string(text, at), "colon"
        elif wants == "colon":
            at, wants = at + 1 if char == ":" else _FAIL, "value"
        elif char == ",":
            at, wants = at + 1, "value" if opened[-1] == "]" else "key"
        elif char == opened[-1]:
            opened.pop()
            at += 1
        else:
            at = _FAIL
        if at == _FAIL:
            return Result(Status.FAIL, pos)
        if at == _MORE:
            return Result(Status.MORE, len(text))
        if not opened:
            return Result(Status.OK, at)
        at = _after_space(text, at)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _string(text: str, at: int) -> int:
    found = _STRING.match(text, at)
    if found is None:
        return _FAIL
    if found[1]:
        return found.end()
    unfinished = found.end() == len(text) or _UNFINISHED_ESCAPE.match(text, found.end())
    return _MORE if unfinished else _FAIL


def _scalar(text: str, at: int) -> int:
    if text[at] == '"':
        return _string(text, at)
    for word in _WORDS:
        if text.startswith(word, at):
            return at + len(word)
        if word.startswith(text[at:]):
            return _MORE
    found = _NUMBER.match(text, at)
    if found is None:
        return _MORE if text[at:] == "-" else _FAIL
    if found.end() == len(text):
        return _MORE
    if not _GOES_ON.match(text, found.end()):
        return found.end()
    # A fraction or an exponent has begun, if the text ends in it.
    return _MORE if re.fullmatch(r"[.eE]?[0-9]*[eE]?[+-]?", text[found.end() :]) else _FAIL
