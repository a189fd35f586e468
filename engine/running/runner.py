"""The runner: all that serving asks of a model, for sequences in caches."""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from engine.caches.layers import LayerCaches
from engine.caches.rotation import KeyRotation, key_rotation
from engine.caches.sequence import SequenceCache, token_array
from engine.caches.window_cache import SPARE, use_window_caches
from engine.running.batching import batch_sizes, forward, largest_exact_batch, use_own_attention
from engine.running.row_step import RowStep, row_step

log = logging.getLogger(__name__)

Logits = np.ndarray[Any, np.dtype[np.float32]]


class Runner:
    """Runs one model; on the thread that owns it."""

    def __init__(
        self, model: Any, n_vocab: int, *, spare: int = SPARE, in_one_go: bool = True
    ) -> None:
        """`model` is mlx-lm's; of its logits the first `n_vocab` belong to tokens.

        `in_one_go` allows steps that compute all rows' attention together; `spare` is how many
        tokens layers with a window hold beside it, at least.
        """
        use_window_caches(model, spare)
        self.model = model
        self._n_vocab = n_vocab
        self._in_one_go = in_one_go

    def prepare(self) -> None:
        """Try out and compile what the first request would otherwise wait for."""
        _ = self._row_step

    def new_cache(self) -> SequenceCache:
        """An empty cache."""
        return SequenceCache(self._new_layers)

    @cached_property
    def rotation(self) -> KeyRotation | None:
        """How to move this model's keys to other places; None if that doesn't work."""
        return self._find_rotation()

    def prefill(self, cache: SequenceCache, tokens: Sequence[int]) -> None:
        """Evaluate `tokens`, which follow those in the cache; nobody asks for their logits."""
        if self._row_step is not None:
            self._row_step.read(tokens, cache.layers)
        else:
            self.model(token_array(tokens), cache=cache.layers)
            mx.eval(cache.states())
        cache.evaluated(tokens)

    def decode(
        self, tokens: Sequence[int], caches: Sequence[SequenceCache], batch: int = 1
    ) -> Logits:
        """Evaluate one token more for each cache, `batch` of them at once: float32 [caches, V].

        A cache may be there several times in a row: its tokens then follow each other.
        """
        layers = [cache.layers for cache in caches]
        batches, at = [], 0
        for size in batch_sizes(len(tokens), batch):
            batches.append(self._forward(tokens[at : at + size], layers[at : at + size]))
            at += size
        logits = mx.concatenate(batches)[:, : self._n_vocab].astype(mx.float32)
        mx.eval(logits)  # lets other threads run meanwhile, which numpy's conversion wouldn't
        for token, cache in zip(tokens, caches, strict=True):
            cache.evaluated([token])
        return np.array(logits)

    def largest_batch(self, n_caches: int, most: int) -> int:
        """How many tokens, of `most` in so many caches, are decoded at once as each alone."""
        trial = [self._new_layers() for _ in range(n_caches)]
        size = largest_exact_batch(self.model, trial, most, self._row_step)
        log.info("tokens are decoded in batches of %d", size)
        return size

    def _forward(self, tokens: Sequence[int], layers: Sequence[LayerCaches]) -> mx.array:
        if self._row_step is None:
            return forward(self.model, tokens, layers)
        return self._row_step.forward(tokens, layers)

    @cached_property
    def _row_step(self) -> RowStep | None:
        if not self._in_one_go:
            return None
        use_own_attention(self.model)
        return row_step(self.model, self._new_layers)

    def _find_rotation(self) -> KeyRotation | None:
        return key_rotation(self.model, self._new_layers())

    @property
    def _new_layers(self) -> Callable[[], LayerCaches]:
        model = self.model
        return lambda: make_prompt_cache(model)
