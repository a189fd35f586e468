"""Moves cached keys to other positions by rotating them on, as llama.cpp's K-shift does."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList

from engine.caches.layers import LayerCaches, copied, has_no_keys, is_plain

log = logging.getLogger(__name__)

_TOLERANCE = 0.03
"""Of the largest number, for keys of 16 bits; a wrong rotation is off by far more."""


class KeyRotation:
    """The rotary embeddings of a model's layers, which add up when one follows the other."""

    def __init__(self, ropes: Sequence[Any]) -> None:
        """`ropes` holds each layer's rotary embedding, called with [B, H, T, D] and an offset."""
        self._ropes = ropes

    def moved(self, layer: int, keys: mx.array, delta: int) -> mx.array:
        """Keys [1, H, T, D] of one layer as they are `delta` positions further on."""
        if delta == 0 or keys.shape[2] == 0:
            return keys
        rope = self._ropes[layer]
        # Some scale what they rotate: that must not happen twice.
        scale = rope(mx.ones((1, 1, 1, keys.shape[3]), keys.dtype), offset=0)
        # As many sequences of one token, so that all turn by the same angle.
        apart = (keys / scale).astype(keys.dtype).transpose(2, 1, 0, 3)
        rotated: mx.array = rope(apart, offset=delta)
        return rotated.transpose(2, 1, 0, 3)


def key_rotation(model: Any, layers: LayerCaches) -> KeyRotation | None:
    """How to move keys of mlx-lm's `model`; None if it doesn't work for this model.

    `layers` are empty caches. It is tried out: a token alone has the same keys at two places up
    to the rotation, in every layer.
    """
    if not all(map(_can_move, layers)) or getattr(model, "keeps_places", False):
        return None
    try:
        holders = zip(model.layers, layers, strict=True)
        ropes = [None if has_no_keys(cache) else _rope(layer) for layer, cache in holders]
        rotation = KeyRotation(ropes)
        there, here = _keys_at(model, layers, 9), _keys_at(model, layers, 4)
        # All at once: processes that share a model must not end the comparison at different layers.
        mx.eval(there, here)
        works = bool(there) and all(
            _alike(rotation.moved(n, keys, -5), here[n]) for n, keys in there.items()
        )
    except Exception as error:
        log.info("cached keys can't be moved: %s", error)
        return None
    return rotation if works else None


def _rope(layer: Any) -> Callable[..., mx.array]:
    """A layer's only rotary embedding."""
    [rope] = {
        id(module): module
        for name, module in layer.named_modules()
        if name.rpartition(".")[2] == "rope"
    }.values()
    return rope  # type: ignore[no-any-return]


class _OneToken:
    """A cache for one token that sees nothing before it, wherever it stands."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.keys: mx.array | None = None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Remember the keys."""
        self.keys = keys
        return keys, values

    def make_mask(self, *args: Any, **more: Any) -> None:
        """Nothing to hide."""


def _keys_at(model: Any, layers: LayerCaches, position: int) -> dict[int, mx.array]:
    """By the layer's number the keys [1, H, 1, D] of the same token at a position."""
    held = {n: _OneToken(position) for n, layer in enumerate(layers) if not has_no_keys(layer)}
    caches = [_seen(layer, held.get(n)) for n, layer in enumerate(layers)]
    model(mx.array([[1]], dtype=mx.int32), cache=caches)
    return {n: cache.keys for n, cache in held.items() if cache.keys is not None}


def _can_move(layer: Any) -> bool:
    """Whether there is nothing but plain layers and states, which stay."""
    if type(layer) is CacheList:
        return sorted(map(has_no_keys, layer.caches)) in ([False], [False, True])
    return is_plain(layer) or has_no_keys(layer)


def _seen(layer: Any, one: "_OneToken | None") -> Any:
    """An empty cache of a layer, with `one` in the place of keys and values."""
    if type(layer) is CacheList:
        return CacheList(*(_seen(part, one) for part in layer.caches))
    return copied(layer) if has_no_keys(layer) else one


def _alike(a: mx.array, b: mx.array) -> bool:
    a, b = a.astype(mx.float32), b.astype(mx.float32)
    largest = mx.abs(b).max()
    return bool((mx.abs(a - b).max() <= _TOLERANCE * largest).item())
