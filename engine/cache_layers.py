"""What is done with mlx-lm's cache objects, one for each layer of the model."""

import copy
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import CacheList, KVCache

LayerCaches = list[Any]
"""mlx-lm's cache objects, one for each layer of the model."""


def copied(layer: Any) -> Any:
    """A cache that goes its own way; memory is shared until one of the two is written to."""
    twin = copy.copy(layer)
    if isinstance(layer, CacheList):
        twin.caches = [copied(part) for part in layer.caches]
    else:
        twin.state = tree_map(_copied_leaf, layer.state)
    return twin


def can_always_trim(layer: Any) -> bool:
    """Whether any number of tokens can be taken back; not from a window or a recurrent state."""
    if isinstance(layer, CacheList):
        return all(can_always_trim(part) for part in layer.caches)
    return type(layer) is KVCache


def _copied_leaf(leaf: Any) -> Any:
    return copy.copy(leaf) if isinstance(leaf, mx.array) else leaf
