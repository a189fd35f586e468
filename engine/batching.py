"""One decode step for several slots at once: shared matrix products, each slot's own attention.

The rows of a batch must come out as they would alone, bit for bit, or a seed would give another
text in company. Whether they do depends on the shapes that BLAS or the GPU's kernels treat
alike, so `largest_exact_batch` tries it out on the model at hand.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import base
from mlx_lm.models.cache import KVCache

from engine.cache import token_array
from engine.cache_layers import LayerCaches

log = logging.getLogger(__name__)

_ATTENTION = "scaled_dot_product_attention"


class BatchedLayer:
    """One layer's caches of several slots, for a step of one token each."""

    def __init__(self, caches: Sequence[Any], offsets: mx.array) -> None:
        """`offsets` holds the caches' lengths: int32 [slots]."""
        self.caches = caches
        self.offset = offsets

    def update_and_fetch(
        self, keys: mx.array, values: mx.array
    ) -> tuple[list[mx.array], list[mx.array]]:
        """Add each slot's row (of [slots, heads, 1, D]) to its cache; what all hold then."""
        held = [
            cache.update_and_fetch(keys[row : row + 1], values[row : row + 1])
            for row, cache in enumerate(self.caches)
        ]
        return [keys for keys, _ in held], [values for _, values in held]

    def make_mask(
        self, n_tokens: int, *, return_array: bool = False, window_size: int | None = None
    ) -> None:
        """One token sees all before it; sliding windows aren't batched."""
        if n_tokens != 1 or window_size is not None:
            raise NotImplementedError("only single tokens without a window are batched")


def forward(model: Any, tokens: Sequence[int], caches: Sequence[LayerCaches]) -> mx.array:
    """Run `model` over one token for each of several sequences: logits [sequences, V]."""
    if len(tokens) == 1:
        logits: mx.array = model(token_array(tokens), cache=caches[0])
        return logits[:, -1]
    offsets = mx.array([layers[0].offset for layers in caches], dtype=mx.int32)
    batched = [BatchedLayer(layer, offsets) for layer in zip(*caches, strict=True)]
    logits = model(token_array(tokens).T, cache=batched)
    return logits[:, -1]


def largest_exact_batch(model: Any, caches: Sequence[LayerCaches]) -> int:
    """How many sequences `forward` can take so that each one's logits are those it gets alone.

    Tries up to as many as there are (empty) `caches`, which are of no further use; 1 if the
    model can't be batched this way at all.
    """
    if not all(type(layer) is KVCache for layer in caches[0]):
        return 1
    _use_own_attention(model)
    try:
        return _try_batches(model, caches)
    except Exception as error:
        log.info("slots are decoded one by one: %s", error)
        return 1


def _try_batches(model: Any, caches: Sequence[LayerCaches]) -> int:
    tokens = list(range(len(caches)))
    alone = []
    for n, layers in enumerate(caches):
        # Different lengths, as slots have them.
        model(token_array([0] * (n + 1)), cache=layers)
        alone.append(np.array(forward(model, [n], [layers])[0].astype(mx.float32)))
        _forget_last(layers)
    exact = 1
    for size in range(2, len(caches) + 1):
        together = forward(model, tokens[:size], caches[:size]).astype(mx.float32)
        for layers in caches[:size]:
            _forget_last(layers)
        if not np.array_equal(np.array(together), np.stack(alone[:size])):
            break
        exact = size
    return exact


def _forget_last(layers: LayerCaches) -> None:
    for layer in layers:
        layer.trim(1)


def _use_own_attention(model: Any) -> None:
    """Put `_attention`, which knows `BatchedLayer`, in the place of mlx-lm's in the model."""
    for name in {type(module).__module__ for module in model.modules()}:
        module = sys.modules[name]
        if getattr(module, _ATTENTION, None) is base.scaled_dot_product_attention:
            setattr(module, _ATTENTION, _attention)


def _attention(
    queries: mx.array, keys: Any, values: Any, cache: Any, *args: Any, **more: Any
) -> mx.array:
    """mlx-lm's attention, on a batch slot by slot."""
    attend: Callable[..., mx.array] = base.scaled_dot_product_attention
    if not isinstance(cache, BatchedLayer):
        return attend(queries, keys, values, cache, *args, **more)
    rows = [
        attend(queries[row : row + 1], keys[row], values[row], one, *args, **more)
        for row, one in enumerate(cache.caches)
    ]
    return mx.concatenate(rows)
