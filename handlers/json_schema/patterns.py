"""Regular expressions of `pattern` as grammar rules, as far as llama.cpp's converter takes them.

Works byte by byte, as the reference does: a str here has one character for each byte of UTF-8.
"""

from __future__ import annotations

import re

from handlers.json_schema.rules import Rules, repeated

_DEEPEST = 100  # parentheses within parentheses
_SPECIAL = frozenset("|.()[]{}*+?^$")
_ESCAPED = frozenset("^$.[]()|{}*+?")  # special in an expression, but not in a literal
_ESCAPE = re.compile(r'\\(?:[trn\\"\[\]]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})')
_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")


class Unsupported(ValueError):
    """An expression that has no grammar: any string is accepted instead."""


class Invalid(ValueError):
    """Not a regular expression."""


def pattern_rule(pattern: str, name: str, rules: Rules, *, dotall: bool) -> str:
    """Add the rule `name` for JSON strings that match `pattern`; returns the name it got.

    Raises Unsupported or Invalid, having added some rules.
    """
    text = pattern.encode(errors="surrogateescape").decode("latin-1")
    if len(text) < 2 or text[0] != "^" or text[-1] != "$":
        raise Unsupported("not anchored with '^' and '$'")
    rule = _Pattern(text[1:-1], name, rules, dotall).read()
    return rules.add(name, rf'"\"" ({_as_text(rule)}) "\""')


def _as_text(of_bytes: str) -> str:
    return of_bytes.encode("latin-1").decode(errors="surrogateescape")


def _quoted(text: str, is_literal: bool) -> str:
    return f'"{text}"' if is_literal else text


class _Pattern:
    """One expression while it is read."""

    def __init__(self, text: str, name: str, rules: Rules, dotall: bool) -> None:
        self._text, self._at = text, 0
        self._name, self._rules, self._dotall = name, rules, dotall
        self._depth = 0
        self._named: dict[str, str] = {}  # what is repeated, and the rule made of it

    def read(self) -> str:
        rule = self._sequence()
        if self._depth:
            raise Invalid("unbalanced parentheses")
        return rule

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _sequence(self) -> str:
        """Everything up to the group's end; consecutive literals become one."""
        # What was read, and whether it is a literal's text.
        items: list[tuple[str, bool]] = []
        while self._at < len(self._text):
            char = self._peek()
            if char == ")":
                self._at += 1
                if not self._depth:
                    raise Invalid("unbalanced parentheses")
                self._depth -= 1
                break
            if char in "*+?":
                self._at += 1
                if not items:
                    raise Invalid("nothing to repeat")
                items[-1] = (_quoted(*items[-1]) + char, False)
            elif char == "{":
                least, most = self._bounds()
                if not items:
                    raise Invalid("nothing to repeat")
                items[-1] = (repeated(self._repeatable(*items[-1]), least, most), False)
            else:
                items.append(self._item(char))
        return _joined(items)

    def _item(self, char: str) -> tuple[str, bool]:
        if char in "^$":
            raise Unsupported("anchor inside the pattern")
        if char == "[":
            return self._class(), False
        if char not in ".(|":
            return self._literal(), True
        self._at += 1
        if char == "(":
            return self._group(), False
        return (self._dot() if char == "." else char), False

    def _dot(self) -> str:
        anything = r"[\U00000000-\U0010FFFF]" if self._dotall else r"[^\x0A\x0D]"
        return self._rules.add("dot", anything)

    def _group(self) -> str:
        if self._peek() == "?":
            if not self._text.startswith("?:", self._at):
                raise Unsupported("unsupported group syntax")
            self._at += 2
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported("pattern nesting too deep")
        return f"({self._sequence()})"

    def _class(self) -> str:
        start = self._at
        self._at += 1
        while self._peek() not in ("", "]"):
            if self._peek() == "\\":
                self._escape("unsupported escape in character class: ")
            else:
                self._at += 1
        if not self._peek():
            raise Invalid("unterminated character class")
        self._at += 1
        return self._text[start : self._at]

    def _escape(self, otherwise: str) -> str:
        """Step over an escape that grammars have too."""
        found = _ESCAPE.match(self._text, self._at)
        if found is None:
            raise Unsupported(otherwise + _as_text(self._text[self._at : self._at + 2]))
        self._at = found.end()
        return found[0]

    def _bounds(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        if end < 0:
            raise Unsupported("unterminated curly brackets")
        numbers = self._text[self._at + 1 : end].split(",")
        self._at = end + 1
        if len(numbers) > 2:
            raise Unsupported("wrong number of values in curly brackets")
        if len(numbers) == 1:
            least = _integer(numbers[0])
            return least, least
        return (
            _integer(numbers[0]) if numbers[0] else 0,
            _integer(numbers[1]) if numbers[1] else None,
        )

    def _repeatable(self, text: str, is_literal: bool) -> str:
        """A literal as it is, anything else as a rule of its own."""
        if is_literal:
            return f'"{text}"'
        if text not in self._named:
            name = f"{self._name}-{len(self._named) + 1}"
            self._named[text] = self._rules.add(name, _as_text(text))
        return self._named[text]

    def _literal(self) -> str:
        """Plain characters, up to one that is special or that the next one repeats."""
        text, found = self._text, ""
        while self._at < len(text):
            char, following = text[self._at], text[self._at + 1 : self._at + 2]
            if char == "\\":
                if not following:
                    raise Invalid("trailing backslash")
                if following in _ESCAPED:
                    found += following
                    self._at += 2
                else:
                    found += self._escape("unsupported escape: ")
            elif char == '"':
                found += r"\""
                self._at += 1
            elif char not in _SPECIAL and (
                not found or following == "." or following not in _SPECIAL
            ):
                found += char
                self._at += 1
            else:
                break
        if not found:
            raise Unsupported(f"unsupported character: {_as_text(self._peek())}")
        return found


def _joined(items: list[tuple[str, bool]]) -> str:
    parts: list[str] = []
    run = ""
    for text, is_literal in items:
        if is_literal:
            run += text
            continue
        if run:
            parts.append(f'"{run}"')
            run = ""
        parts.append(text)
    if run:
        parts.append(f'"{run}"')
    return " ".join(parts)


def _integer(text: str) -> int:
    """As C++'s `stoi` reads it: whatever follows the digits is passed over."""
    found = _NUMBER.match(text)
    if found is None or not -(1 << 31) <= int(found[1]) < 1 << 31:
        raise Unsupported("invalid number in curly brackets")
    return int(found[1])
