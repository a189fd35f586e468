"""What is done with mlx-lm's cache objects, one for each layer of the model."""

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache

from engine.caches.typed_layer import Move, TypedLayer
from engine.panels.attention import moved

LayerCaches = list[Any]
"""mlx-lm's cache objects, or `TypedLayer`s, one for each layer of the model."""


def copied(layer: Any) -> Any:
    """A cache that goes its own way; memory is shared until one of the two is written to."""
    twin = copy.copy(layer)
    if isinstance(layer, CacheList):
        twin.caches = [copied(part) for part in layer.caches]
    else:
        twin.state = tree_map(_copied_leaf, layer.state)
    # For whoever writes to the memory itself, which MLX never does while it is shared.
    layer.shared = twin.shared = True
    moved(twin)
    return twin


def can_always_trim(layer: Any) -> bool:
    """Whether any number of tokens can be taken back; not from a window or a recurrent state."""
    if isinstance(layer, CacheList):
        return all(can_always_trim(part) for part in layer.caches)
    return type(layer) is KVCache


def is_plain(layer: Any) -> bool:
    """Whether it holds keys and values of all tokens in a row, of any type, and nothing else."""
    return type(layer) is KVCache or (isinstance(layer, TypedLayer) and can_always_trim(layer))


def has_no_keys(layer: Any) -> bool:
    """Whether it holds a state of all tokens, and nothing of any one."""
    return type(layer) is ArraysCache


def arrange(layer: Any, pieces: Sequence[tuple[int, int, int]], move: Move) -> None:
    """Keep only `pieces` (start, end, distance to move) of a plain layer; they follow each other.

    `move` is called with keys and a distance. A state stays as it is, as in llama-server.
    """
    if isinstance(layer, TypedLayer):
        layer.arrange(pieces, move)
        return
    if has_no_keys(layer):
        return
    if isinstance(layer, CacheList):
        for part in layer.caches:
            arrange(part, pieces, move)
        return
    keys, values = layer.keys, layer.values
    layer.keys = mx.concatenate([move(keys[..., a:b, :], by) for a, b, by in pieces], axis=2)
    layer.values = mx.concatenate([values[..., a:b, :] for a, b, _ in pieces], axis=2)
    layer.offset = sum(b - a for a, b, _ in pieces)
    moved(layer)


def _copied_leaf(leaf: Any) -> Any:
    return copy.copy(leaf) if isinstance(leaf, mx.array) else leaf
