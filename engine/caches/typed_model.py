"""Which types a model's KV cache has, and how much memory it takes."""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache, make_prompt_cache

from engine.caches.layers import LayerCaches
from engine.caches.sequence import token_array
from engine.caches.typed_layer import TypedLayer
from engine.caches.types import CacheType, cache_type, dtype_name
from engine.errors import ModelError
from engine.running.batching import use_own_attention

log = logging.getLogger(__name__)

_MIB = 1 << 20


def use_cache_types(model: Any, keys: str, values: str) -> None:
    """Have `make_prompt_cache(model)` make caches of these types, by llama.cpp's names.

    An empty name leaves keys or values in the type that the model computes with. Recurrent states
    stay as they are, as upstream. Raises ModelError, in one line, where that isn't possible.
    """
    if not keys and not values:
        return
    asked = " ".join(
        f"{option} {name}" for option, name in (("-ctk", keys), ("-ctv", values)) if name
    )
    make = getattr(model, "make_cache", lambda: [KVCache() for _ in model.layers])
    try:
        types = cache_type(keys), cache_type(values)
    except ValueError as error:
        raise ModelError(str(error)) from None
    try:
        # The hook by which mlx-lm's models choose their own caches.
        model.make_cache = lambda: [_typed(layer, *types) for layer in make()]
        use_own_attention(model)
        _after_one_token(model)
    except ValueError as error:
        raise ModelError(f"{asked}: {error}") from None
    except Exception as error:
        log.info("a cache of other types was tried", exc_info=error)
        raise ModelError(f"{asked}: not possible with this model: leave that out") from None


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """What the keys and values of one sequence take."""

    n_cells: int
    """Tokens of the longest sequence."""
    n_layers: int
    key_type: str
    value_type: str
    key_bytes: int
    """When the sequence is as long as it may get."""
    value_bytes: int

    def __str__(self) -> str:
        keys, values = self.key_bytes / _MIB, self.value_bytes / _MIB
        return (
            f"KV cache of a full slot: {keys + values:.2f} MiB "
            f"({self.n_cells} cells, {self.n_layers} layers), "
            f"K ({self.key_type}): {keys:.2f} MiB, V ({self.value_type}): {values:.2f} MiB"
        )


def cache_sizes(model: Any, n_cells: int) -> CacheSizes | None:
    """The sizes for sequences of up to `n_cells` tokens; None for a model without such a cache.

    Nothing is evaluated for it.
    """
    layers = _after_one_token(model)
    found = [held for layer in layers for held in _held(layer)]
    if not found:
        return None
    return CacheSizes(
        n_cells,
        len(found),
        *type_names(layers),
        sum(_cell_bytes(one.keys) * min(n_cells, one.most_cells) for one in found),
        sum(_cell_bytes(one.values) * min(n_cells, one.most_cells) for one in found),
    )


def type_names(layers: LayerCaches) -> tuple[str, str]:
    """llama.cpp's names for the types of the keys and the values in caches that aren't empty."""
    for held in (held for layer in layers for held in _held(layer)):
        own = dtype_name(held.keys[0].dtype), dtype_name(held.values[0].dtype)
        return held.names[0] or own[0], held.names[1] or own[1]
    return "", ""


@dataclass(frozen=True, slots=True)
class _Held:
    """The arrays [1, H, T, …] of one layer, and the most tokens that its window shows."""

    names: tuple[str, str]
    """The types asked for, if any."""
    keys: list[mx.array]
    values: list[mx.array]
    most_cells: int


def _held(layer: Any) -> Iterator[_Held]:
    if isinstance(layer, TypedLayer):
        names = layer.types[0].name, layer.types[1].name
        yield _Held(names, *layer.held, _window(layer.caches[0]))
    elif isinstance(layer, CacheList):
        for part in layer.caches:
            yield from _held(part)
    elif getattr(layer, "keys", None) is not None:
        yield _Held(("", ""), [layer.keys], [layer.values], _window(layer))


def _window(layer: Any) -> int:
    most: int = getattr(layer, "cells", getattr(layer, "max_size", sys.maxsize))
    return most


def _cell_bytes(arrays: list[mx.array]) -> int:
    return sum(a.shape[1] * a.shape[3] * a.dtype.size for a in arrays)


def _typed(layer: Any, keys: CacheType, values: CacheType) -> Any:
    n_parts = TypedLayer.n_parts(keys, values)
    if type(layer) is KVCache:
        return TypedLayer([KVCache() for _ in range(n_parts)], keys, values)
    if type(layer) is RotatingKVCache:
        size, keep = layer.max_size, layer.keep
        parts = [RotatingKVCache(max_size=size, keep=keep) for _ in range(n_parts)]
        return TypedLayer(parts, keys, values)
    if hasattr(layer, "fresh"):
        return TypedLayer([layer.fresh() for _ in range(n_parts)], keys, values)
    if type(layer) is CacheList:
        return CacheList(*(_typed(part, keys, values) for part in layer.caches))
    if hasattr(layer, "keys"):
        raise ValueError("this model's cache has no other types: leave that out")
    return layer


def _after_one_token(model: Any) -> LayerCaches:
    """Caches as one token leaves them; nothing is evaluated, types and shapes are known."""
    layers: LayerCaches = make_prompt_cache(model)
    model(token_array([0]), cache=layers)
    return layers
