"""Attention of single tokens, each to its own sequence, in one go for all of them.

As MLX has it, each token's attention takes a dozen small steps in each layer. Here it is one
product below MLX: of the tokens' queries, keys and values with a description of the sequences'
caches, which also receive the tokens. It is the same for a token in any company.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from engine.panels.form import LANES
from engine.panels.native import address_of, attention, available, stand_ins

# Each part of the work is a token's queries of one key head; this is enough for all threads.
_GROUPS = 64
_FIRST_ROWS = 16


def can_attend(head_dim: int) -> bool:
    """Whether heads of this size are supported here."""
    return available() and head_dim % LANES == 0


class RowAttention:
    """One layer's attention."""

    def __init__(self) -> None:
        # Keys, values, tokens, room of each row's cache.
        self._rows = np.zeros((_FIRST_ROWS, 4), np.int64)
        self._what: Any = None
        self._stand_in: mx.array | None = None
        self._made_for: tuple[int, int, int, float] | None = None

    def __call__(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        places: Sequence[tuple[Any, int]],
        scale: float,
    ) -> mx.array:
        """What tokens see of their sequences and themselves: float32 [rows, heads, 1, D].

        `queries` is float32 [rows, heads, 1, D], `keys` and `values` are [rows, key heads, 1, D].
        `places` gives each row's `KVCache`, which has room, and its place there. The result must
        be evaluated before the next call: until then the caches lack these tokens.
        """
        n_rows, n_heads, _, head_dim = queries.shape
        shape = (n_heads, keys.shape[1], head_dim, scale)
        if n_rows > len(self._rows):
            self._rows = np.zeros((2 * n_rows, 4), np.int64)
            self._made_for = None
        if self._stand_in is None or self._made_for != shape:
            self._stand_in = self._make(*shape)
        self._rows[:n_rows] = [
            (known.keys_at, known.values_at, place, known.room)
            for known, place in ((_memory(cache), place) for cache, place in places)
        ]
        flat = [part.astype(mx.float32).reshape(n_rows, -1) for part in (queries, keys, values)]
        seen = mx.concatenate(flat, axis=1) @ self._stand_in
        return seen.reshape(n_rows, n_heads, 1, head_dim)

    def _make(self, n_heads: int, n_kv_heads: int, head_dim: int, scale: float) -> mx.array:
        append, attend = attention(head_dim)
        head = struct.pack("<qqf4xQ", n_heads, n_kv_heads, scale, address_of(self._rows))
        self._what = np.frombuffer(head, np.uint8).copy()
        width = (n_heads + 2 * n_kv_heads) * head_dim
        self._made_for = (n_heads, n_kv_heads, head_dim, scale)
        return stand_ins(
            [address_of(self._what)],
            _GROUPS,
            (n_heads * head_dim, width),
            attend,
            before=append,
            n_parts=n_kv_heads,
        ).each[0]


def make_room(cache: Any, n_tokens: int, n_kv_heads: int, head_dim: int) -> None:
    """See that a `KVCache` has arrays of its own with room for `n_tokens` more, evaluated."""
    wanted = cache.offset + n_tokens
    if cache.keys is not None and cache.keys.shape[2] >= wanted and not shared(cache):
        return
    room = -(-wanted // cache.step) * cache.step
    for name in ("keys", "values"):
        new = mx.zeros((1, n_kv_heads, room, head_dim), mx.float32)
        if cache.offset:
            new[..., : cache.offset, :] = getattr(cache, name)[..., : cache.offset, :]
        setattr(cache, name, new)
    mx.eval(cache.keys, cache.values)
    cache.shared = False
    moved(cache)


def shared(cache: Any) -> bool:
    """Whether another cache may hold the same memory."""
    return bool(getattr(cache, "shared", False))


class _Memory(NamedTuple):
    keys: mx.array
    keys_at: int
    values_at: int
    room: int
    """Tokens that there is room for."""


def moved(cache: Any) -> None:
    """Say that MLX may have moved what a `KVCache` holds, as it may whenever it writes there."""
    cache.memory = None


def _memory(cache: Any) -> _Memory:
    """Where the keys and values are; looked up once as long as they stay there."""
    known: _Memory | None = getattr(cache, "memory", None)
    if known is None or known.keys is not cache.keys:
        keys, values = np.array(cache.keys, copy=False), np.array(cache.values, copy=False)
        if not (keys.flags.c_contiguous and values.flags.c_contiguous):
            cache.keys, cache.values = mx.contiguous(cache.keys), mx.contiguous(cache.values)
            return _memory(cache)
        known = _Memory(cache.keys, address_of(keys), address_of(values), keys.shape[2])
        cache.memory = known
    return known
