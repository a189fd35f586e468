"""Saves what a slot holds to a file and restores it, after any restart, for the same model only."""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from engine.caches.layers import can_always_trim
from engine.caches.sequence import Checkpoint, SequenceCache
from engine.caches.typed_layer import TypedLayer
from engine.caches.typed_model import type_names
from engine.caches.window_cache import WindowCache, oldest_place
from engine.panels.layers import PanelLayer
from engine.slots.tensor_file import TensorFile, TensorFileError, TensorInfo, write

log = logging.getLogger(__name__)

_FORMAT, _VERSION = "mlx-llama-server slot", "2"
_SAMPLE = 64
"""Numbers of each weight that the model is told by."""
_MOST_CHECKPOINTS = 1000

T = TypeVar("T")
Leaves = list[Any]
"""A cache's state in a row: arrays (or, of a file, TensorInfo), numbers, and None for neither."""


class SlotFileError(Exception):
    """A slot can't be restored from a file: `str()` says why, as llama-server does."""


class InvalidSlotFile(SlotFileError):
    """The file is missing, changed, cut off, another model's or nothing of this kind."""

    def __init__(self) -> None:
        super().__init__("No available space in KV cache or invalid slot save file")


class SlotTooSmall(SlotFileError):
    """The file holds more tokens than the slot may."""

    def __init__(self) -> None:
        super().__init__("Restored prompt does not fit in the slot context")


class InvalidTokens(SlotFileError):
    """The file holds tokens that the model doesn't have."""

    def __init__(self) -> None:
        super().__init__("Invalid tokens in slot save file")


@dataclass(frozen=True, slots=True)
class SlotFileFigures:
    """What a save or a restore amounted to."""

    n_tokens: int
    n_bytes: int


class SlotFiles:
    """Files for the slots of one model; for the engine thread."""

    def __init__(self, model: Any, n_tokens: int) -> None:
        """`n_tokens` is the size of the vocabulary."""
        self._model = model
        self._n_vocab = n_tokens

    def save(self, cache: SequenceCache, path: Path) -> SlotFileFigures:
        """Write a cache; what was at `path` stays until all is written. Raises OSError."""
        states = [cache.layers, *(list(c.layers.values()) for c in cache.checkpoints)]
        if not cache.tokens:
            states = []
        arrays = [mx.array(cache.tokens, dtype=mx.int32)]
        shapes = []
        for layers in states:
            leaves = [leaf for layer in layers for leaf in _leaves(layer)]
            arrays += [leaf for leaf in leaves if isinstance(leaf, mx.array)]
            shapes.append(["" if isinstance(leaf, mx.array) else leaf for leaf in leaves])
        description = {
            "states": shapes,
            "checkpoints": [[c.n_tokens, list(c.layers)] for c in cache.checkpoints],
        }
        metadata = {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self._fingerprint,
            "types": self._types,
            "description": json.dumps(description),
        }
        return SlotFileFigures(len(cache.tokens), write(path, arrays, metadata))

    def restore(self, path: Path, n_ctx: int) -> tuple[SequenceCache, SlotFileFigures]:
        """Read a cache of at most `n_ctx` tokens; raises SlotFileError, having changed nothing."""
        try:
            with TensorFile(path) as file:
                cache = self._read(file, n_ctx)
                return cache, SlotFileFigures(len(cache.tokens), file.size)
        except (OSError, TensorFileError, ValueError, KeyError, TypeError, IndexError) as error:
            log.warning("the slot file %s can't be restored: %s", path.name, error)
            raise InvalidSlotFile from None

    def _read(self, file: TensorFile, n_ctx: int) -> SequenceCache:
        """The cache; raises SlotFileError or any of what `restore` catches."""
        metadata, tensors = file.metadata, file.tensors
        if (metadata.get("format"), metadata.get("version")) != (_FORMAT, _VERSION):
            raise TensorFileError("another format or version")
        if metadata.get("model") != self._fingerprint:
            raise TensorFileError("another model")
        if metadata.get("types") != self._types:
            raise TensorFileError(f"keys and values aren't {self._types}")
        description = json.loads(metadata["description"])
        [n_tokens] = tensors[0].shape
        if n_tokens > n_ctx:
            raise SlotTooSmall
        checkpoints = [(int(n), numbers) for n, numbers in description["checkpoints"]]
        self._check_checkpoints(checkpoints, n_tokens)
        numbers = [list(range(len(self._template))), *(n for _, n in checkpoints)]
        counts = [n_tokens, *(n for n, _ in checkpoints)]
        if n_tokens == 0:
            numbers, counts = [], []
        infos: Iterator[TensorInfo] = iter(tensors[1:])
        states = [
            self._checked(shapes, which, infos, count)
            for shapes, which, count in zip(description["states"], numbers, counts, strict=True)
        ]
        if next(infos, None) is not None:
            raise TensorFileError("more tensors than described")
        arrays = iter(file.read())
        tokens = np.array(next(arrays)).tolist()
        if not all(0 <= token < self._n_vocab for token in tokens):
            raise InvalidTokens
        cache = SequenceCache(lambda: make_prompt_cache(self._model))
        if tokens:
            layers = [
                self._rebuilt(leaves, which, arrays)
                for leaves, which in zip(states, numbers, strict=True)
            ]
            cache.layers = list(layers[0].values())
            cache.checkpoints = [
                Checkpoint(n, -1, made, max(oldest_place(layer, n) for layer in made.values()))
                for n, made in zip(counts[1:], layers[1:], strict=True)
            ]
            cache.evaluated(tokens)
        return cache

    def _check_checkpoints(self, checkpoints: list[tuple[int, Any]], n_tokens: int) -> None:
        wanted = [n for n, layer in enumerate(self._template) if not can_always_trim(layer)]
        places = [n for n, _ in checkpoints]
        if len(places) > _MOST_CHECKPOINTS or places != sorted(places):
            raise TensorFileError("the checkpoints are wrong")
        if any(numbers != wanted or not 0 < n <= n_tokens for n, numbers in checkpoints):
            raise TensorFileError("a checkpoint is wrong")

    def _checked(
        self, shapes: Any, numbers: list[int], infos: Iterator[TensorInfo], n_tokens: int
    ) -> list[Leaves]:
        """The leaves of each layer, with TensorInfo for arrays, all as the model makes them."""
        given: Iterator[Any] = iter(shapes)
        checked = []
        for number in numbers:
            template = self._template[number]
            described = [_taken(given) for _ in _leaves(template)]
            leaves = [_taken(infos) if leaf == "" else leaf for leaf in described]
            if not _fits(leaves, template, n_tokens):
                raise TensorFileError(f"layer {number} doesn't fit the model")
            checked.append(leaves)
        if next(given, None) is not None:
            raise TensorFileError("more layers than the model has")
        return checked

    def _rebuilt(
        self, leaves: list[Leaves], numbers: list[int], arrays: Iterator[mx.array]
    ) -> dict[int, Any]:
        empty = make_prompt_cache(self._model)
        for number, of_layer in zip(numbers, leaves, strict=True):
            values = [next(arrays) if isinstance(x, TensorInfo) else x for x in of_layer]
            _set_leaves(empty[number], iter(values))
        return {number: empty[number] for number in numbers}

    @cached_property
    def _template(self) -> list[Any]:
        """The caches after one token: what their states look like."""
        layers = make_prompt_cache(self._model)
        self._model(mx.array([[0]], dtype=mx.int32), cache=layers)
        mx.eval([layer.state for layer in layers])
        return list(layers)

    @cached_property
    def _types(self) -> str:
        """The types of keys and values."""
        return "/".join(type_names(self._template))

    @cached_property
    def _fingerprint(self) -> str:
        """Tells the model: names, types and shapes of its weights, and some of their numbers."""
        digest = hashlib.blake2b(digest_size=16)
        weights: Any = tree_flatten(self._model.parameters())
        for name, value in [*weights, *_panels_in(self._model)]:
            sample = value.reshape(-1)[:_SAMPLE]
            digest.update(f"{name} {value.dtype} {value.shape} ".encode())
            digest.update(np.array(mx.contiguous(sample).view(mx.uint8)).tobytes())
        return digest.hexdigest()


def _panels_in(model: Any) -> Iterator[tuple[str, mx.array]]:
    """The weights that are no parameters of MLX."""
    for name, module in model.named_modules():
        if isinstance(module, PanelLayer):
            yield name, module.matrix.data


def _taken(values: Iterator[T]) -> T:
    """The next one, which a file should have."""
    for value in values:
        return value
    raise TensorFileError("less than the model has")


def _leaves(layer: Any) -> Leaves:
    """A cache's state in a row; raises TypeError for a kind that isn't known here."""
    if isinstance(layer, CacheList):
        return [leaf for part in layer.caches for leaf in _leaves(part)]
    if type(layer) is KVCache:
        keys, values, n = layer.state
        if keys is None:
            return [None, None, 0]
        return [keys[..., :n, :], values[..., :n, :], n]
    if type(layer) in (RotatingKVCache, WindowCache):
        return list(layer.state)
    if type(layer) is ArraysCache:
        cache, left_padding, lengths = layer.state
        return [*cache, left_padding, lengths]
    raise TypeError(f"{type(layer).__name__} can't be written to a file")


def _set_leaves(layer: Any, leaves: Iterator[Any]) -> None:
    """Give an empty cache the state that `_leaves` took apart."""
    if isinstance(layer, CacheList):
        for part in layer.caches:
            _set_leaves(part, leaves)
    elif type(layer) is ArraysCache:
        cache = [next(leaves) for _ in layer.cache]
        layer.state = (cache, next(leaves), next(leaves))
    else:
        layer.state = tuple(next(leaves) for _ in layer.state)


def _fits(leaves: Leaves, template: Any, n_tokens: int) -> bool:
    """Whether these may be the leaves of a cache like `template` after `n_tokens`."""
    if isinstance(template, CacheList):
        at = 0
        places = set()
        for part in template.caches:
            count = len(_leaves(part))
            own = leaves[at : at + count]
            if not _fits(own, part, n_tokens):
                return False
            at += count
            if isinstance(template, TypedLayer):
                # Its parts go in step.
                places.add((own[0].shape[2], *own[2:]))
        return len(places) <= 1
    expected = _leaves(template)
    if type(template) is ArraysCache:
        return all(_same(leaf, wanted) for leaf, wanted in zip(leaves, expected, strict=True))
    keys, values, offset = leaves[:3]
    if not (_same(keys, expected[0], free=2) and _same(values, expected[1], free=2)):
        return False
    if offset != n_tokens or type(offset) is not int or keys.shape[2] != values.shape[2]:
        return False
    held = keys.shape[2]
    if type(template) is KVCache:
        return bool(held == n_tokens)
    if type(template) is WindowCache:
        first = leaves[3]
        if type(first) is not int or not 0 <= first <= max(0, n_tokens - template.window):
            return False
        return bool(held == n_tokens - first <= template.cells)
    keep, max_size, index = leaves[3:]
    if (keep, max_size) != (template.keep, template.max_size) or type(index) is not int:
        return False
    least, most = min(n_tokens, max_size), max(n_tokens, max_size)
    return bool(least <= held <= most and 0 <= index <= held)


def _same(leaf: Any, expected: Any, free: int | None = None) -> bool:
    """Whether a described array has the type and shape of another, but for the axis `free`."""
    if not isinstance(leaf, TensorInfo) or not isinstance(expected, mx.array):
        return leaf is None and expected is None
    shape, wanted = list(leaf.shape), list(expected.shape)
    if free is not None and len(shape) == len(wanted):
        shape[free] = wanted[free]
    return leaf.dtype == expected.dtype and shape == wanted
