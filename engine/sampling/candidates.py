"""The candidates a sampler chain works on: ids and logits of one row, and how they are ordered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.sampling.order import REPLAYED, top_order

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]


class Candidates:
    """Token ids, logits and probabilities, kept in the order the reference would have them.

    `sorted` is llama.cpp's flag: once set, the first logit counts as the highest, even where a
    later step has changed that. Where a long row is sorted, only its logits are: which token has
    which of them is found out when somebody asks.
    """

    __slots__ = ("_ids", "_open", "_owned", "logits", "p", "selected", "sorted")

    def __init__(self, logits: Floats) -> None:
        """Start from `logits` (float32 [n_vocab]), which are read and never written."""
        self._ids: Indices | None = None
        self._open: _Open | None = None
        self.logits = logits
        self.p: Floats | None = None
        self.sorted = False
        self.selected = -1
        self._owned = False

    @property
    def size(self) -> int:
        return int(self.logits.shape[0])

    @property
    def ids(self) -> Indices | None:
        """The token ids; None while candidate i is still token i."""
        if self._open is not None:
            at, self._open = self._open.positions(), None
            self._ids = self._ids_at(at)
        return self._ids

    def token(self, index: int) -> int:
        """The token id of the candidate at `index`."""
        at = None if self._open is None else self._open.position(index)
        if at is not None:
            return int(at if self._ids is None else self._ids[at])
        ids = self.ids
        return int(index if ids is None else ids[index])

    def tokens(self) -> Indices:
        """The token ids of all candidates, in their order."""
        ids = self.ids
        return np.arange(self.size) if ids is None else ids

    def replace_logits(self, logits: Floats) -> None:
        """Put new logits, an array of our own, in place of the old."""
        self.logits = logits
        self._owned = True

    def writable_logits(self) -> Floats:
        """The logits as an array that may be written in place."""
        if not self._owned:
            self.replace_logits(self.logits.copy())
        return self.logits

    def take(self, index: Indices | slice) -> None:
        """Keep only the candidates at `index`, in that order."""
        if self._open is not None:
            self._open = self._open.taken(index)
        else:
            self._ids = self.tokens()[index] if isinstance(index, slice) else self._ids_at(index)
        self.logits = self.logits[index]
        self._owned = self._owned or not isinstance(index, slice)
        if self.p is not None:
            self.p = self.p[index]

    def keep_first(self, count: int) -> None:
        """Keep the first `count` candidates."""
        if count < self.size:
            self.take(slice(count))

    def leave(self, token: int | None, logit: np.float32) -> None:
        """Leave only this token, with this logit."""
        self._ids, self._open = np.array([token]), None
        self.p = None
        self.replace_logits(np.array([logit]))

    def sort_top(self, count: int) -> None:
        """Sort by falling logit and keep the first `count`, whatever order there was."""
        self.take(top_order(self.logits, count))
        self.sorted = True

    def sort(self) -> None:
        """Sort by falling logit, unless that was done before."""
        if self.sorted:
            return
        if self.size <= REPLAYED or self.p is not None or self._open is not None:
            self.sort_top(self.size)
            return
        falling = np.sort(self.logits)[::-1]
        self._open = _Open(self.logits, falling)
        self.replace_logits(falling.copy())
        self.sorted = True

    def highest(self) -> np.float32:
        """The logit that probabilities are taken relative to."""
        highest: np.float32 = self.logits[0] if self.sorted else self.logits.max()
        return highest

    def softmax(self) -> Floats:
        """Set and return the probabilities, summed in float32 one after the other."""
        weights = exp(self.logits - self.highest())
        self.p = weights / total(weights)
        return self.p

    def _ids_at(self, index: Indices) -> Indices:
        return index if self._ids is None else self._ids[index]


class _Open:
    """A row whose logits are sorted, and what tells which of them came from where."""

    __slots__ = ("_falling", "_ranks", "_row")

    def __init__(self, row: Floats, falling: Floats, ranks: Indices | None = None) -> None:
        """`ranks` are those of the candidates that are left; None for all."""
        self._row, self._falling, self._ranks = row, falling, ranks

    def taken(self, index: Indices | slice) -> _Open:
        """The same for the candidates at `index`."""
        ranks = np.arange(len(self._falling)) if self._ranks is None else self._ranks
        return _Open(self._row, self._falling, ranks[index])

    def position(self, index: int) -> int | None:
        """Where the candidate stood before sorting; None if others are equal to it."""
        rank = index if self._ranks is None else self._ranks[index]
        found = np.flatnonzero(self._row == self._falling[rank])
        return int(found[0]) if len(found) == 1 else None

    def positions(self) -> Indices:
        """Where all that are left stood, ties in the reference's order."""
        order = top_order(self._row, len(self._row))
        return order if self._ranks is None else order[self._ranks]


def total(values: Floats) -> np.float32:
    """The float32 sum taken one after the other, as a loop in C++ takes it; 0 of nothing."""
    last: np.float32 = np.add.accumulate(values)[-1] if len(values) else np.float32(0)
    return last


def exp(x: Floats) -> Floats:
    """float32 e^x rounded as the C library does, which numpy's own float32 exp doesn't."""
    return np.exp(x, dtype=np.float64).astype(np.float32)


def log(x: Any) -> Any:
    """float32 natural logarithm, rounded as the C library does."""
    return np.log(x, dtype=np.float64).astype(np.float32)


def log2(x: Any) -> Any:
    """float32 logarithm to base 2, rounded as the C library does."""
    return np.log2(x, dtype=np.float64).astype(np.float32)


def power(base: float, exponent: float) -> np.float32:
    """float32 base^exponent, rounded as the C library does."""
    return np.float32(np.power(np.float64(base), np.float64(exponent)))
