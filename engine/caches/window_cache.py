"""Keys and values of a layer that sees a window, with some more of them than it sees.

mlx-lm's own cache for such layers holds what is seen and no more, so that nothing can be taken
back. llama-server holds about a batch more, and reuses what it can by that.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import CacheList, RotatingKVCache

from engine.caches.typed_layer import TypedLayer

_STEP = 256
SPARE = 512
"""llama-server's default for `--ubatch-size`, which is what it holds beside the window."""


def n_cells(window: int, spare: int) -> int:
    """Tokens that are held for a window: rounded up as llama-server does."""
    return -(-(window + spare) // _STEP) * _STEP


class WindowCache:
    """The newest tokens' keys and values [1, H, T, D] in a row, in their order."""

    def __init__(self, window: int, cells: int) -> None:
        """`window` is how many tokens a token sees, itself included; `cells` how many are held."""
        self.window = window
        self.cells = max(cells, window)
        self.offset = 0
        """Tokens so far."""
        self.first = 0
        """The place of the oldest token held."""
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self._end = 0
        """Where in the arrays the next token comes."""

    def fresh(self) -> "WindowCache":
        """An empty one of the same kind."""
        return WindowCache(self.window, self.cells)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Add tokens; what the first of them sees, and all after that."""
        n_new = keys.shape[2]
        seen = min(self.offset - self.first, self.window - 1)
        if self.keys is None or self.values is None or self._end + n_new > self.keys.shape[2]:
            self._make_room(keys, values)
        start, self._end = self._end, self._end + n_new
        self.keys[..., start : self._end, :] = keys  # type: ignore[index]
        self.values[..., start : self._end, :] = values  # type: ignore[index]
        self.offset += n_new
        self.first = max(self.first, self.offset - self.cells)
        span = slice(start - seen, self._end)
        return self.keys[..., span, :], self.values[..., span, :]  # type: ignore[index]

    def make_mask(
        self, n_tokens: int, window_size: int | None = None, return_array: bool = False
    ) -> Any:
        """What `update_and_fetch` gives for so many tokens, as each of them may see it."""
        if n_tokens == 1:
            return None
        seen = min(self.offset - self.first, self.window - 1)
        if seen + n_tokens > self.window or return_array:
            return create_causal_mask(n_tokens, seen, window_size=window_size or self.window)
        return "causal"

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays of what is held, the tokens so far, and the place of the oldest held."""
        if self.keys is None or self.values is None:
            return None, None, self.offset, self.first
        span = slice(self._end - (self.offset - self.first), self._end)
        return self.keys[..., span, :], self.values[..., span, :], self.offset, self.first

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        self.keys, self.values, self.offset, self.first = state
        self._end = self.offset - self.first

    def is_trimmable(self) -> bool:
        """Whether any number of tokens can be taken back."""
        return self.first == 0

    def trim(self, n_tokens: int) -> int:
        """Take tokens back; the caller knows that enough of a window is left."""
        n_tokens = min(n_tokens, self.offset - self.first)
        self.offset -= n_tokens
        self._end -= n_tokens
        return n_tokens

    def narrow(self) -> None:
        """Hold no more than the window shows, and no room for more."""
        self.first = max(self.first, self.offset - self.window)
        keys, values, *_ = self.state
        if keys is not None:
            self.keys, self.values = mx.contiguous(keys), mx.contiguous(values)
            self._end = self.offset - self.first

    def size(self) -> int:
        """Tokens held."""
        return self.offset - self.first

    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return self.keys is None

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        if self.keys is None or self.values is None:
            return 0
        return int(self.keys.nbytes + self.values.nbytes)

    def _make_room(self, keys: mx.array, values: mx.array) -> None:
        """Move what has to stay to the beginning of larger arrays."""
        n_new = keys.shape[2]
        n_kept = min(self.offset - self.first, self.cells)
        room = -(-(n_kept + n_new) // _STEP) * _STEP
        span = slice(self._end - n_kept, self._end)

        def moved(old: mx.array | None, new: mx.array) -> mx.array:
            shape = (*new.shape[:2], room - (n_kept if old is not None else 0), new.shape[3])
            space = mx.zeros(shape, new.dtype)
            return space if old is None else mx.concatenate([old[..., span, :], space], axis=2)

        self.keys, self.values = moved(self.keys, keys), moved(self.values, values)
        self._end = n_kept


def use_window_caches(model: Any, spare: int) -> None:
    """Have mlx-lm's `make_prompt_cache(model)` make `WindowCache`s where it made its own.

    `spare` is how many tokens are held beside a window, at least.
    """
    make = getattr(model, "make_cache", None)
    if make is not None:
        # The hook by which mlx-lm's models choose their own caches.
        model.make_cache = _WindowedCaches(make, spare)


class _WindowedCaches:
    def __init__(self, make: Callable[[], list[Any]], spare: int) -> None:
        self._make: Callable[[], list[Any]] = getattr(make, "_make", make)
        self._spare = spare

    def __call__(self) -> list[Any]:
        return [self._windowed(layer) for layer in self._make()]

    def _windowed(self, layer: Any) -> Any:
        if type(layer) is CacheList:
            return CacheList(*map(self._windowed, layer.caches))
        if isinstance(layer, TypedLayer):
            return TypedLayer([self._windowed(part) for part in layer.caches], *layer.types)
        if type(layer) is RotatingKVCache and layer.keep == 0:
            return WindowCache(layer.max_size, n_cells(layer.max_size, self._spare))
        return layer


def narrow(layer: Any) -> Any:
    """A copy's cache, without what a window doesn't show."""
    for part in layer.caches if isinstance(layer, CacheList) else [layer]:
        if isinstance(part, WindowCache):
            part.narrow()
    return layer


def oldest_place(layer: Any, n_tokens: int) -> int:
    """The earliest place that a layer's cache of so many tokens can still be continued from.

    It is where llama-server has the oldest token, or of a state, which is of all tokens, the last.
    """
    if isinstance(layer, CacheList):
        return max(oldest_place(part, n_tokens) for part in layer.caches)
    if isinstance(layer, WindowCache):
        return layer.first
    return 0 if layer.is_trimmable() else n_tokens - 1


def window_of(layer: Any) -> int:
    """How many tokens a layer sees, 0 if it sees all or says nothing of it."""
    if isinstance(layer, CacheList):
        return max(window_of(part) for part in layer.caches)
    return layer.window if isinstance(layer, WindowCache) else 0
