"""One slot's KV cache together with the tokens it holds, so that the two can't part."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import can_trim_prompt_cache, trim_prompt_cache

LayerCaches = list[Any]
"""mlx-lm's cache objects, one for each layer of the model."""


_BLOCK = 512


class SequenceCache:
    """The evaluated tokens of one sequence and their keys and values (or recurrent states)."""

    def __init__(self, make_layers: Callable[[], LayerCaches]) -> None:
        """`make_layers` returns empty caches for the model."""
        self._make_layers = make_layers
        self.layers = make_layers()
        self.tokens: list[int] = []
        """Change through the methods only."""

    def common_prefix(self, tokens: list[int]) -> int:
        """How many tokens this cache and `tokens` begin with in common."""
        limit, at = min(len(self.tokens), len(tokens)), 0
        # Slices compare in C; long prompts are looked at once per slot.
        while at < limit and self.tokens[at : at + _BLOCK] == tokens[at : at + _BLOCK]:
            at += _BLOCK
        while at < limit and self.tokens[at] == tokens[at]:
            at += 1
        return min(at, limit)

    def keep_first(self, n_tokens: int) -> int:
        """Forget all but the first `n_tokens`; returns how many could be kept.

        Caches that can't be rolled back (recurrent state, a sliding window that has moved on)
        are emptied unless nothing has to go.
        """
        surplus = len(self.tokens) - n_tokens
        if surplus <= 0:
            return len(self.tokens)
        if n_tokens == 0 or not can_trim_prompt_cache(self.layers):
            self.clear()
        else:
            trim_prompt_cache(self.layers, surplus)
            del self.tokens[n_tokens:]
        return len(self.tokens)

    def clear(self) -> None:
        """Forget everything, whatever state an interrupted evaluation left behind."""
        self.layers = self._make_layers()
        self.tokens = []

    def evaluated(self, tokens: Sequence[int]) -> None:
        """The model ran over `tokens` with these layers and the outcome is computed."""
        self.tokens.extend(tokens)

    def states(self) -> list[Any]:
        """What `mx.eval` needs so that the cache is computed, and nothing beyond it."""
        return [layer.state for layer in self.layers]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return sum(layer.nbytes for layer in self.layers)


def token_array(tokens: Sequence[int]) -> mx.array:
    """A batch of one sequence: int32 [1, len(tokens)]."""
    return mx.array([tokens], dtype=mx.int32)
