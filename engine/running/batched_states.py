"""Recurrent states of several slots in one step: put together for the model, and taken apart."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx


class BatchedStates:
    """One layer's `ArraysCache`s of several slots, in the place of one, for a token of each."""

    # What mlx-lm's layers ask for; no row here is padded or shorter than others.
    lengths = None
    left_padding = None

    def __init__(self, caches: Sequence[Any]) -> None:
        self._caches = caches

    def __getitem__(self, index: int) -> mx.array | None:
        """All slots' arrays, one row each; a slot that has none yet counts as zeros."""
        rows = [cache[index] for cache in self._caches]
        known = next((row for row in rows if row is not None), None)
        if known is None:
            return None
        return mx.concatenate([mx.zeros_like(known) if row is None else row for row in rows])

    def __setitem__(self, index: int, rows: mx.array) -> None:
        for row, cache in enumerate(self._caches):
            cache[index] = rows[row : row + 1]

    def advance(self, n_tokens: int) -> None:
        """Nothing is counted."""

    def make_mask(self, n_tokens: int) -> None:
        """Every row is a token."""
