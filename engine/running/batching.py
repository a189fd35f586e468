"""One decode step for several rows at once: shared matrix products, each row's own attention.

A row is one token of a slot; a slot may have several, at consecutive places. Rows must come out
as they would alone, bit for bit, or a seed would give another text in company. Whether they do
depends on the shapes that BLAS or the GPU's kernels treat alike, so `largest_exact_batch` tries
it out on the model at hand.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import base
from mlx_lm.models.cache import ArraysCache, CacheList

from engine.caches.layers import LayerCaches, copied, is_plain
from engine.caches.packed_attention import attention
from engine.caches.sequence import token_array
from engine.caches.typed_layer import TypedLayer
from engine.caches.window_cache import WindowCache
from engine.running.batched_states import BatchedStates
from engine.running.row_step import RowLayer, RowStep

log = logging.getLogger(__name__)

_ATTENTION = "scaled_dot_product_attention"
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64)
"""Batches have one of these sizes, so that every size in use was tried out."""

Evaluate = Callable[[Sequence[int], Sequence[LayerCaches]], mx.array]


class BatchedLayer:
    """One layer's caches of several slots, for a step of one row or more each."""

    def __init__(self, caches: Sequence[Any], counts: Sequence[int], offsets: mx.array) -> None:
        """`counts` holds each cache's rows, `offsets` the rows' places: int32 [rows]."""
        self.caches = caches
        self.counts = counts
        self.offset = offsets

    def update_and_fetch(
        self, keys: mx.array, values: mx.array
    ) -> tuple[list[mx.array], list[mx.array]]:
        """Add rows (of [rows, heads, 1, D]) to their caches; what each row sees of its own."""
        seen: list[tuple[mx.array, mx.array]] = []
        for cache, count in zip(self.caches, self.counts, strict=True):
            rows = slice(len(seen), len(seen) + count)
            seen += _update_and_fetch_each(cache, _in_a_row(keys[rows]), _in_a_row(values[rows]))
        return [keys for keys, _ in seen], [values for _, values in seen]

    def make_mask(
        self, n_tokens: int, *, return_array: bool = False, window_size: int | None = None
    ) -> None:
        """One token sees all that its cache gives it, which is no more than a window shows."""
        windowed = all(isinstance(cache, WindowCache) for cache in self.caches)
        if n_tokens != 1 or not (window_size is None or windowed):
            raise NotImplementedError("only single tokens are batched")


def forward(model: Any, tokens: Sequence[int], caches: Sequence[LayerCaches]) -> mx.array:
    """Run `model` over one token for each row: logits [rows, V].

    `caches` holds each row's; rows with the same caches stand together, in their order.
    """
    if len(tokens) == 1:
        logits: mx.array = model(token_array(tokens), cache=caches[0])
        return logits[:, -1]
    groups = [list(group) for _, group in groupby(caches, key=id)]
    counts = [len(group) for group in groups]
    places = [_n_tokens(group[0]) + n for group in groups for n in range(len(group))]
    offsets = mx.array(places, dtype=mx.int32)
    layers = zip(*(group[0] for group in groups), strict=True)
    batched = [_batched(layer, counts, offsets) for layer in layers]
    logits = model(token_array(tokens).T, cache=batched)
    return logits[:, -1]


def batch_sizes(n_rows: int, largest: int) -> Iterator[int]:
    """Sizes of the batches to evaluate so many rows in, where `largest` is known to be exact."""
    while n_rows > 0:
        size = max(size for size in _SIZES if size <= min(n_rows, largest))
        yield size
        n_rows -= size


def can_be_batched(layers: LayerCaches) -> bool:
    """Whether caches are of the kinds that several rows can be added to at once."""
    return all(map(_takes_rows, layers))


def _takes_rows(layer: Any) -> bool:
    if type(layer) is CacheList:
        return can_be_batched(layer.caches)
    return is_plain(layer) or type(layer) in (WindowCache, ArraysCache)


def _batched(layers: Sequence[Any], counts: Sequence[int], offsets: mx.array) -> Any:
    """The same layer's caches of several slots, in the place of one."""
    if type(layers[0]) is CacheList:
        parts = zip(*(layer.caches for layer in layers), strict=True)
        return CacheList(*(_batched(part, counts, offsets) for part in parts))
    if type(layers[0]) is not ArraysCache:
        return BatchedLayer(layers, counts, offsets)
    if max(counts) > 1:
        raise NotImplementedError("a state takes one token after the other")
    return BatchedStates(layers)


def _n_tokens(layers: Sequence[Any]) -> int:
    """Tokens in a model's caches, as far as one of them counts them."""
    for layer in layers:
        if type(layer) is CacheList:
            return _n_tokens(layer.caches)
        if hasattr(layer, "offset"):
            return int(layer.offset)
    return 0


def trial_sizes(most: int) -> list[int]:
    """Sizes of batches to try out, from the smallest, of `most` rows at most."""
    return [size for size in _SIZES if 1 < size <= most]


def largest_exact_batch(
    model: Any, caches: Sequence[LayerCaches], most: int, step: RowStep | None = None
) -> int:
    """How many rows `forward` can take so that each one's logits are those it gets alone.

    Tries up to `most`, shared out among the (empty) `caches`, which are of no further use; 1 if
    the model can't be batched this way at all. With a `step`, that is what is tried.
    """
    if not can_be_batched(caches[0]):
        return 1
    use_own_attention(model)
    try:
        return _try_batches(model, caches, most, step)
    except Exception as error:
        log.info("rows are decoded one by one: %s", error)
        return 1


def _try_batches(model: Any, caches: Sequence[LayerCaches], most: int, step: RowStep | None) -> int:
    evaluate = step.forward if step else partial(forward, model)
    for n, layers in enumerate(caches):
        # Different lengths, as slots have them.
        model(token_array([0] * (n + 1)), cache=layers)
    alone = [_Alone(evaluate, [copied(layer) for layer in layers]) for layers in caches]
    plain = all(map(is_plain, caches[0]))

    def is_exact(size: int) -> bool:
        counts = [(size - n + len(caches) - 1) // len(caches) for n in range(len(caches))]
        tokens = [token for count in counts for token in range(count)]
        holders = [layers for layers, n in zip(caches, counts, strict=True) for _ in range(n)]
        if plain:
            together = np.array(evaluate(tokens, holders).astype(mx.float32))
            for layers, count in zip(caches, counts, strict=True):
                _forget_last(layers, count)
        else:
            twins = {id(layers): [copied(layer) for layer in layers] for layers in caches}
            held = [twins[id(layers)] for layers in holders]
            together = np.array(evaluate(tokens, held).astype(mx.float32))
        wanted = [row for one, n in zip(alone, counts, strict=True) for row in one.first(n)]
        return np.array_equal(together, np.stack(wanted))

    sizes = trial_sizes(most)
    if step and sizes and is_exact(sizes[-1]):
        # Rows that don't touch each other at all don't in smaller batches.
        return sizes[-1]
    exact = 1
    for size in sizes:
        if not is_exact(size):
            break
        exact = size
    return exact


class _Alone:
    """Logits of tokens 0, 1, 2, … one after the other, computed as far as asked for."""

    def __init__(self, evaluate: Evaluate, layers: LayerCaches) -> None:
        self._evaluate = evaluate
        self._layers = layers
        self._rows: list[Any] = []

    def first(self, n: int) -> list[Any]:
        while len(self._rows) < n:
            row = self._evaluate([len(self._rows)], [self._layers])[0]
            self._rows.append(np.array(row.astype(mx.float32)))
        return self._rows[:n]


def _forget_last(layers: LayerCaches, n_tokens: int) -> None:
    for layer in layers:
        layer.trim(n_tokens)


def _update_and_fetch_each(
    cache: Any, keys: mx.array, values: mx.array
) -> list[tuple[mx.array, mx.array]]:
    """Add the rows of one sequence to its cache; what each of them sees, up to itself."""
    if isinstance(cache, TypedLayer):
        return cache.update_and_fetch_each(keys, values)
    if isinstance(cache, WindowCache):
        places = [slice(n, n + 1) for n in range(keys.shape[2])]
        return [cache.update_and_fetch(keys[..., n, :], values[..., n, :]) for n in places]
    before = cache.offset
    all_keys, all_values = cache.update_and_fetch(keys, values)
    ends = range(before + 1, before + keys.shape[2] + 1)
    return [(all_keys[..., :end, :], all_values[..., :end, :]) for end in ends]


def _in_a_row(rows: mx.array) -> mx.array:
    """Rows [n, heads, 1, D] of one sequence as a cache takes them: [1, heads, n, D]."""
    return rows if len(rows) == 1 else rows.transpose(2, 1, 0, 3)


def use_own_attention(model: Any) -> None:
    """Put `_attention`, which knows `BatchedLayer`, in the place of mlx-lm's in the model."""
    for name in {type(module).__module__ for module in model.modules()}:
        module = sys.modules[name]
        if getattr(module, _ATTENTION, None) is base.scaled_dot_product_attention:
            setattr(module, _ATTENTION, _attention)


def _attention(
    queries: mx.array, keys: Any, values: Any, cache: Any, *args: Any, **more: Any
) -> mx.array:
    """mlx-lm's attention; on a batch row by row, or in one go where that was prepared."""
    if isinstance(cache, RowLayer):
        return cache.attend(queries, keys, values, *args, **more)
    if not isinstance(cache, BatchedLayer):
        return attention(queries, keys, values, cache, *args, **more)
    holders = [one for one, n in zip(cache.caches, cache.counts, strict=True) for _ in range(n)]
    rows = [
        attention(queries[row : row + 1], keys[row], values[row], holder, *args, **more)
        for row, holder in enumerate(holders)
    ]
    return mx.concatenate(rows)
