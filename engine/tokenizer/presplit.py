"""Cutting text into the words that BPE merges run within, exactly where llama.cpp cuts.

llama.cpp runs its patterns over a copy of the text in which each character outside ASCII stands
for its category, with C++'s idea of `\\s` and `\\d`; so does this module, with `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from engine.tokenizer.unicode_categories import CATEGORIES, WHITESPACE, WIDE_WHITESPACE

#: `(text, classes, bounds)` to finer bounds; `classes` is `classify(text)`.
Cutter = Callable[[str, str, list[int]], list[int]]

#: Names of the cutters that are not patterns.
DIGITS_FROM_RIGHT = "digits in threes, counted from the right"
KIMI_K2 = "kimi-k2"

_NUMBER, _LETTER, _PUNCTUATION, _MARK, _SYMBOL, _OTHER = "\xd1\xd2\xd3\xd4\xd5\xd0"
_HAN_LETTER, _HAN_OTHER = "\xd6\xd7"

#: What a category matches in classified text: its stand-in and its members in ASCII.
_CLASSES = {
    "N": _NUMBER + "0-9",
    "L": _LETTER + "A-Za-z",
    "P": _PUNCTUATION + r"!-#%-*,-/:-;?-@\[-\]_\{\}",
    "M": _MARK,
    "S": _SYMBOL + r"\$\+<->\^`\|\~",
}
_SPACES = " \\t-\\r"
_MEMBERS = {r"\s": _SPACES, r"\d": "0-9"}

_HAN = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EBEF),
    (0x2F800, 0x2FA1F),
)


def classify(text: str) -> str:
    """`text` with each character outside ASCII replaced by the stand-in of its category."""
    return text if text.isascii() else text.translate(_class_table())


def compile_cutters(patterns: tuple[str, ...]) -> list[Cutter]:
    """One cutter a pattern, each to be run on the pieces the one before left."""
    return [_cutter(pattern) for pattern in patterns]


def split(text: str, cutters: list[Cutter]) -> list[str]:
    """The words of `text`, in order; nothing is dropped."""
    classes = classify(text)
    bounds = [0, len(text)]
    for cutter in cutters:
        bounds = cutter(text, classes, bounds)
    return [text[start:end] for start, end in pairwise(bounds)]


@cache
def _cutter(pattern: str) -> Cutter:
    if pattern == DIGITS_FROM_RIGHT:
        return _cut_digits
    if pattern == KIMI_K2:
        return _cut_kimi
    compiled = re.compile(_translate(pattern))
    by_class = r"\p{" in pattern

    def cut(text: str, classes: str, bounds: list[int]) -> list[int]:
        subject = classes if by_class else _narrow_spaces(text)
        return _cut_by(compiled, subject, bounds)

    return cut


def _cut_by(pattern: re.Pattern[str], subject: str, bounds: list[int]) -> list[int]:
    cuts = [0]
    last = 0
    for start, end in pairwise(bounds):
        for match in pattern.finditer(subject, start, end):
            first, stop = match.span()
            if first > last:
                cuts.append(first)
                last = first
            if stop > last:
                cuts.append(stop)
                last = stop
        if end > last:
            cuts.append(end)
            last = end
    return cuts


def _translate(pattern: str) -> str:
    """A pattern of llama.cpp's in the syntax of `re`, to be run over classified text."""

    inside = False
    out = []
    for item in re.findall(r"\\p\{\w+\}|\\.|.", pattern, re.DOTALL):
        if item == "[" and not inside:
            inside = True
        elif item == "[":
            item = r"\["
        elif item == "]":
            inside = False
        elif item == "$" and not inside:
            item = r"\Z"
        elif item == r"\S":
            item = f"[^{_SPACES}]"
        elif item in _MEMBERS:
            item = _MEMBERS[item] if inside else f"[{_MEMBERS[item]}]"
        elif item.startswith(r"\p{"):
            item = _CLASSES[item[3]] if inside else f"[{_CLASSES[item[3]]}]"
        out.append(item)
    return "".join(out)


def _narrow_spaces(text: str) -> str:
    return text if text.isascii() else text.translate(_NARROW)


_NARROW = {ord(char): "\v" for char in WIDE_WHITESPACE}


@cache
def _class_table() -> str:
    stand_in = str.maketrans(
        "NLPMSZCU", _NUMBER + _LETTER + _PUNCTUATION + _MARK + _SYMBOL + _OTHER * 3
    )
    table = list(CATEGORIES.translate(stand_in))
    table[:128] = map(chr, range(128))
    for char in WHITESPACE:
        if not char.isascii():
            table[ord(char)] = "\v"
    return "".join(table)


def _cut_digits(text: str, classes: str, bounds: list[int]) -> list[int]:
    """Cut after each group of digits; the text before a run stays with the run's first group."""
    cuts = [0]
    for start, end in pairwise(bounds):
        for run in _DIGIT_RUN.finditer(classes, start, end):
            first, stop = run.span()
            cuts.extend(range(first + ((stop - first) % 3 or 3), stop + 1, 3))
        if end > cuts[-1]:
            cuts.append(end)
    return cuts


_DIGIT_RUN = re.compile(f"[{_CLASSES['N']}]+")


def _cut_kimi(text: str, classes: str, bounds: list[int]) -> list[int]:
    """Kimi K2's words: Han characters are words of their own kind, apart from other letters."""
    if not text.isascii():
        classes = "".join(
            (_HAN_LETTER if kind == _LETTER else _HAN_OTHER) if _is_han(char) else kind
            for char, kind in zip(text, classes, strict=True)
        )
    return _cut_by(_KIMI, classes, bounds)


def _is_han(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _HAN)


_KIMI = re.compile(
    "[{han}]+"
    "|[^\\r\\n{l}{h}{n}]?[{l}]+(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
    "|[{n}]{{1,3}}"
    "| ?[^{s}{l}{h}{n}]+[\\r\\n]*"
    "|[{s}]*[\\r\\n]+"
    "|[{s}]+(?![^{s}])"
    "|[{s}]+".format(
        han=_HAN_LETTER + _HAN_OTHER,
        h=_HAN_LETTER,
        l=_CLASSES["L"],
        n=_CLASSES["N"],
        s=_SPACES,
    )
)
