"""Attention of one token to a quantised cache, without unpacking what the cache holds.

For one token that is the quicker way: it reads less memory, and unpacking would have to be done
over at each step. For many tokens unpacking once pays, and MLX's fused attention after it.
"""

from typing import Any

import mlx.core as mx
from mlx_lm.models import base

from engine.caches.typed_layer import Packed, TypedLayer
from engine.caches.types import GROUP, turned

_fused = base.scaled_dot_product_attention


def attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    """mlx-lm's attention, which also knows the caches that `TypedLayer` makes."""
    if not isinstance(cache, TypedLayer):
        return _fused(queries, keys, values, cache, scale, mask, sinks)  # type: ignore[no-any-return]
    packed = cache.packed(keys, values)
    if packed is None or mask is not None or sinks is not None or queries.shape[:3:2] != (1, 1):
        return _fused(queries, keys, values, None, scale, mask, sinks)  # type: ignore[no-any-return]
    return _attend(queries, *packed, scale)


def _attend(queries: mx.array, keys: Packed, values: Packed, scale: float) -> mx.array:
    """Queries [1, heads, 1, D], of which the same number belongs to each of the keys' heads."""
    n_kv_heads = keys.arrays[0].shape[1]
    # MLX's quantised product in 16 bits is many times slower on a CPU.
    dtype = mx.float32 if mx.default_device().type == mx.DeviceType.cpu else queries.dtype
    grouped = (queries * scale).astype(dtype).reshape(1, n_kv_heads, -1, queries.shape[3])
    weights = mx.softmax(_scores(grouped, keys), axis=-1, precise=True)
    out = _sums(weights, values).astype(queries.dtype)
    return out.reshape(1, queries.shape[1], 1, out.shape[3])


def _scores(queries: mx.array, keys: Packed) -> mx.array:
    if keys.type.bits:
        return _product(turned(queries), keys, transpose=True)
    return queries @ keys.type.unpack(keys.arrays, queries.dtype).swapaxes(2, 3)


def _sums(weights: mx.array, values: Packed) -> mx.array:
    if values.type.bits:
        return turned(_product(weights, values, transpose=False))
    return weights @ values.type.unpack(values.arrays, weights.dtype)


def _product(left: mx.array, right: Packed, *, transpose: bool) -> mx.array:
    codes, *more = right.arrays
    scales, biases = (array.astype(left.dtype) for array in more)
    bits = right.type.bits
    return mx.quantized_matmul(
        left, codes, scales, biases, transpose=transpose, group_size=GROUP, bits=bits
    )
