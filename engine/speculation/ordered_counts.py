"""Counts by token, in the order that libstdc++'s `unordered_map` has them.

Of tokens counted equally often llama.cpp takes the first it comes across, so that its order
decides what is drafted. It follows from the tokens and the order in which they came.
"""

from collections.abc import Iterator

_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061)
"""How many buckets there are, one number after the other as the table grows."""


class OrderedCounts:
    """A hash table whose buckets stand in a row, the one filled last in front."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._n_grown = 0
        self._buckets: dict[int, list[int]] = {}
        """By number, the one filled last at the end; tokens in each, the newest at the end."""

    def add(self, token: int, count: int) -> None:
        """Count a token so many times more."""
        if token in self._counts:
            self._counts[token] += count
            return
        if len(self._counts) == _BUCKETS[self._n_grown] and self._n_grown + 1 < len(_BUCKETS):
            in_order = list(self._in_order())
            self._n_grown += 1
            self._buckets = {}
            for old in in_order:
                self._put(old)
        self._counts[token] = count
        self._put(token)

    def get(self, token: int) -> int:
        """How often a token was counted."""
        return self._counts.get(token, 0)

    def items(self) -> Iterator[tuple[int, int]]:
        """Tokens and their counts."""
        return ((token, self._counts[token]) for token in self._in_order())

    def _put(self, token: int) -> None:
        # A negative token's hash is taken as an unsigned 64-bit number.
        bucket = (token & 0xFFFF_FFFF_FFFF_FFFF) % _BUCKETS[self._n_grown]
        self._buckets.setdefault(bucket, []).append(token)

    def _in_order(self) -> Iterator[int]:
        for bucket in reversed(self._buckets.values()):
            yield from reversed(bucket)
