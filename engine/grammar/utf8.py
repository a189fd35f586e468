"""Code points of a token's bytes, when characters may be split over tokens."""

from __future__ import annotations

from typing import NamedTuple


class Partial(NamedTuple):
    """A character cut off: its bits so far and how many bytes are missing (-1: invalid)."""

    value: int = 0
    missing: int = 0


WHOLE = Partial()
_INVALID = Partial(0, -1)


def decode(piece: bytes, partial: Partial) -> tuple[tuple[int, ...], Partial]:
    """The characters that `piece` completes after `partial`, and what it leaves incomplete.

    As llama.cpp: a NUL ends the piece, continuation bytes are checked only where they complete
    an earlier piece's character, and a piece that is invalid has no characters at all.
    """
    piece = piece.split(b"\0")[0]
    value, missing = partial
    at = 0
    while at < len(piece) and missing > 0:
        if piece[at] >> 6 != 2:
            return (), _INVALID
        value = (value << 6) + (piece[at] & 0x3F)
        at, missing = at + 1, missing - 1
    points = [value] if partial.missing > 0 and missing == 0 else []
    while at < len(piece):
        first = piece[at]
        if 0x80 <= first < 0xC0:
            return (), _INVALID
        missing = 0 if first < 0x80 else 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        value = first & ((1 << (7 - missing)) - 1)
        at += 1
        while at < len(piece) and missing > 0:
            value = (value << 6) + (piece[at] & 0x3F)
            at, missing = at + 1, missing - 1
        if missing == 0:
            points.append(value)
    return tuple(points), Partial(value, missing) if missing else WHOLE


def completions(partial: Partial) -> tuple[int, int] | None:
    """The lowest and the highest code point that `partial` can become; None if it can't."""
    value, missing = partial
    if missing < 0 or (missing == 1 and value < 2):
        return None
    low = value << (missing * 6)
    high = low | ((1 << (missing * 6)) - 1)
    if low == 0:
        low = {2: 1 << 11, 3: 1 << 16}.get(missing, 0)
    return low, high
