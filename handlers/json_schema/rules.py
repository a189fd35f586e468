"""The rules of a grammar while it is written, and the ones every grammar may use."""

from __future__ import annotations

import re
from typing import NamedTuple


class Ready(NamedTuple):
    """A rule's text, and the ready rules that it names."""

    text: str
    needs: tuple[str, ...] = ()


SPACE = r'| " " | "\n"{1,2} [ \t]{0,20}'

# By JSON type and for values of any type; "char", "integral-part" and "decimal-part" are parts.
TYPES = {
    "boolean": Ready('("true" | "false")'),
    "decimal-part": Ready("[0-9]{1,16}"),
    "integral-part": Ready("[0] | [1-9] [0-9]{0,15}"),
    "number": Ready(
        '("-"? integral-part) ("." decimal-part)? ([eE] [-+]? integral-part)?',
        ("integral-part", "decimal-part"),
    ),
    "integer": Ready('("-"? integral-part)', ("integral-part",)),
    "value": Ready(
        "object | array | string | number | boolean | null",
        ("object", "array", "string", "number", "boolean", "null"),
    ),
    "object": Ready(
        '"{" space ( string ":" space value ("," space string ":" space value)* )? space "}"',
        ("string", "value"),
    ),
    "array": Ready('"[" space ( value ("," space value)* )? space "]"', ("value",)),
    "uuid": Ready(
        r'"\"" [0-9a-fA-F]{8} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" '
        r'[0-9a-fA-F]{4} "-" [0-9a-fA-F]{12} "\""'
    ),
    "char": Ready(r'[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})'),
    "string": Ready(r'"\"" char* "\""', ("char",)),
    "null": Ready('"null"'),
}

FORMATS = {
    "date": Ready(
        '[0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [1-2] [0-9] | "3" [0-1] )'
    ),
    "time": Ready(
        '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{3} )? '
        '( "Z" | ( "+" | "-" ) ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )'
    ),
    "date-time": Ready('date "T" time', ("date", "time")),
    "date-string": Ready(r'"\"" date "\""', ("date",)),
    "time-string": Ready(r'"\"" time "\""', ("time",)),
    "date-time-string": Ready(r'"\"" date-time "\""', ("date-time",)),
}

READY = TYPES | FORMATS
RESERVED = frozenset({"root", *READY})

UNBOUNDED = 2**31 - 1  # a highest number that says there is none
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9-]+")
_ESCAPES = {"\r": r"\r", "\n": r"\n", '"': r"\"", "\\": r"\\"}
_TO_ESCAPE = re.compile(r'[\r\n"\\]')


class Rules:
    """Rules by name; a name that is taken for something else gets a number."""

    def __init__(self) -> None:
        self._texts = {"space": SPACE}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def add(self, name: str, text: str) -> str:
        """Add a rule; returns the name it got, made of letters, digits and hyphens."""
        wanted = as_name(name)
        found, number = wanted, 0
        while self._texts.setdefault(found, text) != text:
            found = f"{wanted}{number}"
            number += 1
        return found

    def add_ready(self, name: str, rule: Ready) -> str:
        """Add a ready rule under a name of its own, and whatever it needs."""
        added = self.add(name, rule.text)
        for need in rule.needs:
            if need not in self._texts:
                self.add_ready(need, READY[need])
        return added

    def saved(self) -> dict[str, str]:
        """What `restore` goes back to."""
        return dict(self._texts)

    def restore(self, saved: dict[str, str]) -> None:
        """Forget what was added since `saved`."""
        self._texts = saved

    def __str__(self) -> str:
        """The grammar, its rules sorted by name."""
        return "".join(f"{name} ::= {text}\n" for name, text in sorted(self._texts.items()))


def as_name(text: str) -> str:
    """`text` with a hyphen for every run of characters that names can't have."""
    return _NOT_IN_NAMES.sub("-", text)


def literal(text: str) -> str:
    """A grammar's literal for exactly this text."""
    return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text) + '"'


def repeated(item: str, least: int, most: int | None, separator: str = "") -> str:
    """`item` from `least` to `most` times (None: any number), `separator` between two of them."""
    if most == UNBOUNDED:
        most = None
    if most == 0:
        return ""
    if (least, most) == (0, 1):
        return f"{item}?"
    if separator:
        further = repeated(f"({separator} {item})", max(least - 1, 0) if least >= 0 else least - 1,
                           None if most is None else most - 1)  # fmt: skip
        return f"({item} {further})?" if least == 0 else f"{item} {further}"
    if most is None and least in (0, 1):
        return item + "*+"[least]
    return f"{item}{{{least},{'' if most is None else most}}}"
