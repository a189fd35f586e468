"""A grammar as llama.cpp's parser leaves it: rules numbered in the order their names came up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What an element of a rule is; numbered as in llama.cpp."""

    END = 0
    ALT = 1
    RULE = 2
    CHAR = 3
    CHAR_NOT = 4
    CHAR_UPPER = 5
    CHAR_ALT = 6
    CHAR_ANY = 7
    TOKEN = 8
    TOKEN_NOT = 9


class Element(NamedTuple):
    """One step of a rule; `value` is a rule's number, a code point or a token id.

    A set of characters is a CHAR or CHAR_NOT followed by CHAR_ALTs; a CHAR_UPPER after any of
    them makes it a range. ALT begins a rule's next alternative, END closes the rule.
    """

    kind: Kind
    value: int = 0


Rule = tuple[Element, ...]

END = Element(Kind.END)
ALT = Element(Kind.ALT)


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar that can be followed: every name is defined and no rule is left-recursive."""

    rules: tuple[Rule, ...]
    names: tuple[str, ...]
    root: int


class GrammarError(ValueError):
    """A grammar can't be used: its text is what a client is told, `detail` says what is wrong."""

    def __init__(self, detail: str) -> None:
        super().__init__("failed to parse grammar")
        self.detail = detail
