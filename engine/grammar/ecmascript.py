"""Regular expressions as C++'s `std::regex` reads them, byte by byte, for the `regex` module."""

from __future__ import annotations

import re
from collections.abc import Iterable

import regex  # type: ignore[import-untyped]

_STATES = 100_000  # how many states the reference's library allows an expression
_ESCAPED = {"0": 0, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_DIGIT = frozenset(b"0123456789")
_LETTER = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SPACE = frozenset(b" \t\n\v\f\r")
_PUNCTUATION = frozenset(range(33, 127)) - _DIGIT - _LETTER
_WORD = _LETTER | _DIGIT | {ord("_")}
_ALL = frozenset(range(256))
_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_CLASSES |= {name.upper(): _ALL - members for name, members in _CLASSES.items()}
_NAMED = {
    "alpha": _LETTER,
    "digit": _DIGIT,
    "alnum": _LETTER | _DIGIT,
    "upper": frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "lower": frozenset(b"abcdefghijklmnopqrstuvwxyz"),
    "space": _SPACE,
    "blank": frozenset(b" \t"),
    "cntrl": frozenset([*range(32), 127]),
    "print": frozenset(range(32, 127)),
    "graph": frozenset(range(33, 127)),
    "punct": _PUNCTUATION,
    "xdigit": frozenset(b"0123456789abcdefABCDEF"),
    **_CLASSES,
}
_WORD_EDGE = "(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))"
_BRACES = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")


def compile_pattern(pattern: str) -> regex.Pattern[bytes]:
    """The expression, to be searched for in UTF-8; raises ValueError with the library's text."""
    reading = _Reading(pattern.encode(errors="surrogateescape").decode("latin-1"))
    try:
        return regex.compile(reading.read().encode("latin-1"), regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"unsupported regular expression: {error}") from None


class _Reading:
    """One expression on its way into the other notation."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._groups = 0
        self._open: list[int] = []
        self._states = 3  # the expression's own

    def read(self) -> str:
        made = self._alternatives()
        if self._at < len(self._text):
            raise _unbalanced()
        return made

    def _take(self, wanted: str) -> bool:
        if not self._text.startswith(wanted, self._at):
            return False
        self._at += len(wanted)
        return True

    def _next(self) -> str:
        """The next character, stepped over; empty at the end."""
        found = self._text[self._at : self._at + 1]
        self._at += 1
        return found

    def _alternatives(self) -> str:
        ways = [self._sequence()]
        while self._take("|"):
            ways.append(self._sequence())
        return "|".join(ways)

    def _sequence(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)*+?{":
            before = self._states
            part, repeatable = self._item()
            self._count(1)
            while repeatable and (times := self._times()):
                least, most, written = times
                if max(least, most) > 1:
                    self._count((self._states - before) * (max(least, most) - 1))
                part = f"(?:{part}){written}"
            parts.append(part)
        return "".join(parts)

    def _count(self, states: int) -> None:
        self._states += states
        if self._states > _STATES:
            raise ValueError(
                "Number of NFA states exceeds limit. Please use shorter regex string, or use "
                "smaller brace expression, or make _GLIBCXX_REGEX_STATE_LIMIT larger."
            )

    def _item(self) -> tuple[str, bool]:
        """One assertion or atom, and whether it may be repeated."""
        char = self._next()
        if char in "^$":
            return (r"\A" if char == "^" else r"\Z"), False
        if char == "(":
            return self._group()
        if char == "[":
            return self._set(), True
        if char == ".":
            return _set_of(_ALL - {10, 13}), True
        if char == "\\":
            return self._escape()
        return _byte(ord(char)), True

    def _group(self) -> tuple[str, bool]:
        if self._at >= len(self._text):
            raise _unbalanced()
        opening, number = "(", 0
        if self._take("?"):
            kind = self._next()
            if not kind:
                raise _unbalanced()
            if kind not in ":=!":
                raise ValueError("Invalid '(?...)' zero-width assertion in regular expression")
            opening = f"(?{kind}"
        else:
            self._groups += 1
            number = self._groups
        self._open.append(number)
        inside = self._alternatives()
        self._open.pop()
        if not self._take(")"):
            raise _unbalanced()
        return f"{opening}{inside})", opening[-1] not in "=!"

    def _escape(self) -> tuple[str, bool]:
        char = self._next()
        if not char:
            raise ValueError("Invalid escape at end of regular expression")
        if char in "bB":
            return _WORD_EDGE if char == "b" else f"(?!{_WORD_EDGE})", False
        if char in _CLASSES:
            return _set_of(_CLASSES[char]), True
        if char in "123456789":
            return self._reference(char), True
        return _byte(self._escaped(char)), True

    def _reference(self, digits: str) -> str:
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            digits += self._next()
        number = int(digits)
        if number > self._groups:
            raise ValueError("Back-reference index exceeds current sub-expression count.")
        if number in self._open:
            raise ValueError("Back-reference referred to an opened sub-expression.")
        return f"(?:\\{number})"

    def _escaped(self, char: str) -> int:
        """The byte that an escape stands for; what needs no escape is itself."""
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "c":
            if self._at >= len(self._text):
                raise ValueError(r"invalid '\cX' control character in regular expression")
            return ord(self._next())  # not the control character, in the library either
        if char in "xu":
            digits = self._text[self._at : self._at + (2 if char == "x" else 4)]
            self._at += len(digits)
            if len(digits) < (2 if char == "x" else 4) or not re.fullmatch("[0-9a-fA-F]+", digits):
                what = r"\xNN" if char == "x" else r"\uNNNN"
                raise ValueError(f"Invalid '{what}' control character in regular expression")
            return int(digits, 16) & 0xFF
        return ord(char)

    def _times(self) -> tuple[int, int, str] | None:
        """How often the item before is repeated: least, most and the quantifier's text."""
        if self._at >= len(self._text) or self._text[self._at] not in "*+?{":
            return None
        if self._text[self._at] != "{":
            found = self._next()
            least, most = 0, 1
        else:
            braces = _BRACES.match(self._text, self._at)
            if braces is None:
                if re.fullmatch(r"\{[0-9]+,?[0-9]*", self._text[self._at :]):
                    raise ValueError("Mismatched '{' and '}' in regular expression")
                raise ValueError("Invalid range in '{}' in regular expression")
            found = braces[0]
            self._at = braces.end()
            least = int(braces[1])
            most = int(braces[3]) if braces[3] else least
            if most < least:
                raise ValueError("Invalid range in '{}' in regular expression")
        return least, most, found + ("?" if self._take("?") else "")

    # Sets, which are written out as the bytes they hold.

    def _set(self) -> str:
        inverted = self._take("^")
        members: set[int] = set()
        last: int | None = None  # a byte that may begin a range
        after_class = False
        while not self._take("]"):
            if self._take("-"):
                if self._text.startswith("]", self._at):
                    members.add(ord("-"))
                elif after_class:
                    raise ValueError("Invalid start of '[x-x]' range in regular expression")
                elif last is None:
                    members.add(ord("-"))
                    last = ord("-")
                else:
                    end = ord("-") if self._take("-") else self._member()
                    if not isinstance(end, int):
                        raise ValueError("Invalid end of '[x-x]' range in regular expression")
                    if end < last:
                        raise ValueError("Invalid range in bracket expression.")
                    members.update(range(last, end + 1))
                    last = None
                continue
            found = self._member()
            after_class = not isinstance(found, int)
            last = found if isinstance(found, int) else None
            members.update({found} if isinstance(found, int) else found)
        return _set_of(_ALL - members if inverted else members)

    def _member(self) -> int | frozenset[int]:
        char = self._next()
        if not char:
            raise ValueError("Unexpected character within '[...]' in regular expression")
        if char == "[" and self._text[self._at : self._at + 1] in (":", ".", "="):
            return self._named(self._next())
        if char != "\\":
            return ord(char)
        char = self._next()
        if not char:
            raise ValueError("Invalid escape in regular expression")
        return _CLASSES[char] if char in _CLASSES else self._escaped(char)

    def _named(self, mark: str) -> int | frozenset[int]:
        end = self._text.find(mark, self._at)
        what = {":": "character class", ".": "collating element", "=": "equivalence class"}[mark]
        if end < 0 or self._text[end + 1 : end + 2] != "]":
            raise ValueError(f"Invalid {what} in regular expression")
        name = self._text[self._at : end]
        self._at = end + 2
        if mark == ":":
            if name.lower() not in _NAMED:
                raise ValueError("Invalid character class.")
            return _NAMED[name.lower()]
        if len(name) != 1:
            raise ValueError(f"Invalid {what.replace('collating', 'collate')}.")
        return ord(name) if mark == "." else frozenset({ord(name)})


def _unbalanced() -> ValueError:
    return ValueError("Mismatched '(' and ')' in regular expression")


def _byte(value: int) -> str:
    return rf"\x{value:02x}"


def _set_of(members: Iterable[int]) -> str:
    listed = "".join(map(_byte, sorted(members)))
    return f"[{listed}]" if listed else "(?!)"
