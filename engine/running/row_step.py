"""One decode step for several rows whose attention is computed in one go, where that is possible.

With matrices in panels too, a row's logits don't depend on the others in any way, and a step costs
little more for many rows than for one.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from engine.caches.layers import LayerCaches, copied
from engine.caches.sequence import token_array
from engine.panels.attention import RowAttention, can_attend, make_room

log = logging.getLogger(__name__)

_TRIAL = [0, 1, 2]
_TRIAL_ROOM = 16
_TOLERANCE = 1e-3


class RowLayer:
    """One layer's caches of several rows, in the place of one sequence's."""

    def __init__(
        self, places: Sequence[tuple[Any, int]], offsets: mx.array, attention: RowAttention
    ) -> None:
        """`places` gives each row's cache and its place there; `offsets` is int32 [rows]."""
        self.offset = offsets
        self.seen: mx.array | None = None
        """What the rows saw, once it is planned; evaluating it adds the rows to the caches."""
        self._places = places
        self._attention = attention

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """The rows' own keys and values [rows, heads, 1, D]: `attend` adds them to the caches."""
        return keys, values

    def attend(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        scale: float,
        mask: Any = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """What each row sees of its sequence: [rows, heads, 1, D]."""
        if mask is not None or sinks is not None:
            raise NotImplementedError("only plain attention is computed for many rows in one go")
        self.seen = self._attention(queries, keys, values, self._places, scale)
        return self.seen.astype(queries.dtype)

    def make_mask(
        self, n_tokens: int, *, return_array: bool = False, window_size: int | None = None
    ) -> None:
        """One token sees all before it; sliding windows aren't computed in one go."""
        if n_tokens != 1 or window_size is not None:
            raise NotImplementedError("only single tokens without a window are taken together")


class RowStep:
    """Evaluates one token more for each of several rows."""

    def __init__(self, model: Any, head_shapes: Sequence[tuple[int, int]]) -> None:
        """`head_shapes` gives each layer's number of key heads, and the numbers of one."""
        self._model = model
        self._shapes = head_shapes
        self._attention = [RowAttention() for _ in head_shapes]

    def forward(self, tokens: Sequence[int], caches: Sequence[LayerCaches]) -> mx.array:
        """Logits [rows, V], evaluated.

        `caches` holds each row's; rows with the same caches stand together, in their order.
        """
        groups = [list(group) for _, group in groupby(caches, key=id)]
        sequences = [(group[0], len(group)) for group in groups]
        logits: mx.array = self._model(token_array(tokens).T, cache=self._layers(sequences))
        logits = logits[:, -1]
        mx.eval(logits)
        _added(sequences)
        return logits

    def read(self, tokens: Sequence[int], cache: LayerCaches) -> None:
        """Evaluate tokens that follow those in the cache; nobody asks for their logits.

        Each comes out as it would with `forward`, however the text is cut into pieces.
        """
        sequences = [(cache, len(tokens))]
        layers = self._layers(sequences)
        self._model(token_array(tokens).T, cache=layers)
        # With what the last layer sees all of them have got their keys and values.
        mx.eval([layer.seen for layer in layers])
        _added(sequences)

    def _layers(self, sequences: Sequence[tuple[LayerCaches, int]]) -> list[RowLayer]:
        """Layers for so many rows of each of some sequences."""
        for cache, count in sequences:
            for layer, shape in zip(cache, self._shapes, strict=True):
                make_room(layer, count, *shape)
        held = [(cache, cache[0].offset + n) for cache, count in sequences for n in range(count)]
        offsets = mx.array([place for _, place in held], dtype=mx.int32)
        return [
            RowLayer([(cache[number], place) for cache, place in held], offsets, attention)
            for number, attention in enumerate(self._attention)
        ]


def _added(sequences: Sequence[tuple[LayerCaches, int]]) -> None:
    for cache, count in sequences:
        for layer in cache:
            layer.offset += count


def row_step(model: Any, new_layers: Callable[[], LayerCaches]) -> RowStep | None:
    """The step for a model, None if attention can't be computed in one go here, or with it.

    It is tried out: the model must give, but for rounding, what it gives without.
    """
    layers = new_layers()
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    if not on_cpu or not all(type(layer) is KVCache for layer in layers):
        return None
    for layer in layers:
        # No more room than the trial takes.
        layer.step = _TRIAL_ROOM
    try:
        model(token_array(_TRIAL), cache=layers)
        shapes = [(layer.keys.shape[1], layer.keys.shape[3]) for layer in layers]
        plain = all(layer.values.shape[3] == layer.keys.shape[3] for layer in layers)
        if not plain or not all(can_attend(head_dim) for _, head_dim in shapes):
            return None
        step = RowStep(model, shapes)
        alone = [copied(layer) for layer in layers]
        wanted = np.array(model(token_array(_TRIAL[:1]), cache=alone)[0, -1].astype(mx.float32))
        row = np.array(step.forward(_TRIAL[:1], [layers])[0].astype(mx.float32))
    except Exception as error:
        log.info("attention is computed row by row: %s", error)
        return None
    agrees = np.abs(row - wanted).max() <= _TOLERANCE * np.abs(wanted).max()
    return step if agrees else None
