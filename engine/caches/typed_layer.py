"""One layer's cache with keys and values in types of their own, which may be quantised."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList

from engine.caches.types import CacheType

Move = Callable[[mx.array, int], mx.array]
"""Called with keys [1, H, T, D] and a distance: the keys so much further on."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Keys or values as they are held."""

    type: CacheType
    arrays: Sequence[mx.array]


@dataclass(slots=True)
class _Fetched:
    """What was last handed out to be attended to, and the same as it is held."""

    pairs: list[tuple[mx.array, mx.array, Packed, Packed]] = field(default_factory=list)


class TypedLayer(CacheList):  # type: ignore[misc]  # mlx-lm has no types
    """Caches of mlx-lm's in step with each other, each of which holds two of the arrays.

    Numbers are packed once, when they come. What the model is handed is unpacked when it is
    evaluated, which attention over what is packed never does.
    """

    def __init__(self, parts: Sequence[Any], keys: CacheType, values: CacheType) -> None:
        """`parts` are empty: `KVCache`s or `RotatingKVCache`s, `n_parts` of them."""
        super().__init__(*parts)
        self.types = keys, values
        self._keys, self._values = keys, values
        self._dtype = mx.float32
        self._fetched = _Fetched()

    @staticmethod
    def n_parts(keys: CacheType, values: CacheType) -> int:
        """How many caches it takes."""
        return (keys.n_arrays + values.n_arrays) // 2

    @property
    def offset(self) -> int:
        """Tokens so far."""
        n_tokens: int = self.caches[0].offset
        return n_tokens

    @property
    def state(self) -> list[Any]:
        """The parts' states."""
        return [part.state for part in self.caches]

    @property
    def held(self) -> tuple[list[mx.array], list[mx.array]]:
        """The arrays of keys and of values with whatever room they have to grow; none if empty."""
        arrays = [a for part in self.caches for a in (part.keys, part.values) if a is not None]
        return self._split(arrays)

    def make_mask(self, *args: Any, **more: Any) -> Any:
        """As mlx-lm's cache of this kind makes it."""
        return self.caches[0].make_mask(*args, **more)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Add [1, H, T, D]; all that is held then, or what a window shows of it."""
        return self._seen(*self._added(keys, values), one=keys.shape[2] == 1)

    def update_and_fetch_each(
        self, keys: mx.array, values: mx.array
    ) -> list[tuple[mx.array, mx.array]]:
        """The same without a window; what each of the T new tokens sees, up to itself."""
        before = self.offset
        held_keys, held_values = self._added(keys, values)
        ends = range(before + 1, before + keys.shape[2] + 1)
        return [
            self._seen(_first(held_keys, end), _first(held_values, end), one=True) for end in ends
        ]

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """All that is held, for layers that share it."""
        arrays = [a for part in self.caches for a in part.keys_and_values()]
        keys, values = self._split(arrays)
        return self._keys.unpack(keys, self._dtype), self._values.unpack(values, self._dtype)

    def packed(self, keys: mx.array, values: mx.array) -> tuple[Packed, Packed] | None:
        """How these keys and values, just handed out, are held; None if they are others.

        Asking once is enough: it is forgotten then, so that the arrays can be written to.
        """
        pairs, self._fetched = self._fetched.pairs, _Fetched()
        for n, (known_keys, known_values, *held) in enumerate(pairs):
            if keys is known_keys and values is known_values:
                self._fetched.pairs = pairs[n + 1 :]
                return held[0], held[1]
        return None

    def arrange(self, pieces: Sequence[tuple[int, int, int]], move: Move) -> None:
        """Keep only `pieces` (start, end, distance to move), which follow each other then.

        Keys that move are unpacked for it and packed again; all else is moved as it is held.
        """
        keys, values = self.held
        moved = [self._moved([a[..., i:j, :] for a in keys], by, move) for i, j, by in pieces]
        kept = [[a[..., i:j, :] for a in values] for i, j, _ in pieces]
        arrays = [mx.concatenate(list(each), axis=2) for each in zip(*moved, strict=True)]
        arrays += [mx.concatenate(list(each), axis=2) for each in zip(*kept, strict=True)]
        for n, part in enumerate(self.caches):
            part.keys, part.values = arrays[2 * n], arrays[2 * n + 1]
            part.offset = sum(j - i for i, j, _ in pieces)

    def _moved(self, arrays: list[mx.array], by: int, move: Move) -> Sequence[mx.array]:
        if by == 0 or arrays[0].shape[2] == 0:
            return arrays
        packed = self._keys.pack(move(self._keys.unpack(arrays, mx.float32), by))
        return [new.astype(old.dtype) for new, old in zip(packed, arrays, strict=True)]

    def _added(self, keys: mx.array, values: mx.array) -> tuple[list[mx.array], list[mx.array]]:
        # A view that somebody still had would make the update a copy of everything.
        self._fetched = _Fetched()
        self._dtype = keys.dtype
        arrays = [*self._keys.pack(keys), *self._values.pack(values)]
        fetched: list[mx.array] = []
        for n, part in enumerate(self.caches):
            fetched += part.update_and_fetch(arrays[2 * n], arrays[2 * n + 1])
        return self._split(fetched)

    def _seen(
        self, keys: list[mx.array], values: list[mx.array], *, one: bool
    ) -> tuple[mx.array, mx.array]:
        seen = self._keys.unpack(keys, self._dtype), self._values.unpack(values, self._dtype)
        if one and (self._keys.bits or self._values.bits):
            held = Packed(self._keys, keys), Packed(self._values, values)
            self._fetched.pairs.append((*seen, *held))
        return seen

    def _split(self, arrays: list[mx.array]) -> tuple[list[mx.array], list[mx.array]]:
        return arrays[: self._keys.n_arrays], arrays[self._keys.n_arrays :]


def _first(arrays: Sequence[mx.array], n_tokens: int) -> list[mx.array]:
    return [array[..., :n_tokens, :] for array in arrays]
