"""The candidates a sampler chain works on: ids and logits of one row, and how they are ordered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.sampling.order import top_order

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]


class Candidates:
    """Token ids, logits and probabilities, kept in the order the reference would have them.

    `ids` is None while candidate i is still token i. `sorted` is llama.cpp's flag: once set,
    the first logit counts as the highest, even where a later step has changed that.
    """

    __slots__ = ("_owned", "ids", "logits", "p", "selected", "sorted")

    def __init__(self, logits: Floats) -> None:
        """Start from `logits` (float32 [n_vocab]), which are read and never written."""
        self.ids: Indices | None = None
        self.logits = logits
        self.p: Floats | None = None
        self.sorted = False
        self.selected = -1
        self._owned = False

    @property
    def size(self) -> int:
        return int(self.logits.shape[0])

    def token(self, index: int) -> int:
        """The token id of the candidate at `index`."""
        return int(index if self.ids is None else self.ids[index])

    def tokens(self) -> Indices:
        """The token ids of all candidates, in their order."""
        return np.arange(self.size) if self.ids is None else self.ids

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
        self.ids = self.tokens()[index] if isinstance(index, slice) else self._ids_at(index)
        self.logits = self.logits[index]
        self._owned = self._owned or not isinstance(index, slice)
        if self.p is not None:
            self.p = self.p[index]

    def keep_first(self, count: int) -> None:
        """Keep the first `count` candidates."""
        if count < self.size:
            self.take(slice(count))

    def sort_top(self, count: int) -> None:
        """Sort by falling logit and keep the first `count`, whatever order there was."""
        self.take(top_order(self.logits, count))
        self.sorted = True

    def sort(self) -> None:
        """Sort by falling logit, unless that was done before."""
        if not self.sorted:
            self.sort_top(self.size)

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
        return index if self.ids is None else self.ids[index]


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
