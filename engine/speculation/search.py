"""Finds where tokens stand in a longer list of tokens, at C's speed."""

from array import array
from collections.abc import Sequence

_WIDTH = array("i").itemsize


def find_last(tokens: Sequence[int], wanted: Sequence[int], above: int, highest: int) -> int | None:
    """The last place in `above` < place <= `highest` where `wanted` stands; None if nowhere."""
    if highest <= above:
        return None
    start = above + 1
    text = array("i", tokens[start : highest + len(wanted)]).tobytes()
    sought = array("i", wanted).tobytes()
    end = len(text)
    while (at := text.rfind(sought, 0, end)) >= 0:
        if at % _WIDTH == 0:
            return start + at // _WIDTH
        # Found across the border of two tokens.
        end = at + len(sought) - 1
    return None
