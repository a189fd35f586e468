"""Reads a GGUF model's hyperparameters from its metadata, each checked for type and range."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError

_MAX_LAYERS = 512
_MAX_EXPERTS = 512
_MAX_SIZE = 1 << 24


class Hparams:
    """The keys `ARCHITECTURE.…` of a model; whatever is missing or odd raises `ModelError`."""

    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        self.path = path
        self.metadata = metadata
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise ModelError(f"{path} doesn't say its architecture: convert the model again")
        self.architecture = architecture

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.metadata

    def value(self, key: str) -> Any:
        """A key's value; one per layer, all the same, counts as one; None if it isn't there."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, list):
            if len(set(value)) != 1:
                raise self.bad(key, "differs from layer to layer, which isn't supported")
            return value[0]
        return value

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(key, "is missing" if value is None else "isn't an integer")
        if not least <= value <= _MAX_SIZE:
            raise self.bad(key, f"is {value}, not between {least} and {_MAX_SIZE}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.bad(key, "is missing" if value is None else "isn't a number")
        if not abs(value) < float("inf"):
            raise self.bad(key, f"is {value}")
        return float(value)

    def integers(self, key: str, default: list[int] | None = None) -> list[int]:
        """A list of integers from 0 on."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if value is None and default is not None:
            return default
        if not isinstance(value, list) or not all(type(x) is int and x >= 0 for x in value):
            raise self.bad(key, "is missing" if value is None else "isn't a list of integers")
        return value

    def per_layer(self, key: str) -> list[int]:
        """An integer for each layer, which the file may give once for all."""
        if isinstance(self.metadata.get(f"{self.architecture}.{key}"), list):
            values = self.integers(key)
            if len(values) != self.n_layer:
                raise self.bad(key, f"has {len(values)} values for {self.n_layer} layers")
            return values
        return [self.integer(key, least=0)] * self.n_layer

    def bad(self, key: str, what: str) -> ModelError:
        return ModelError(
            f"{self.path}: metadata '{self.architecture}.{key}' {what}; convert the model again"
        )

    @property
    def n_layer(self) -> int:
        return self._at_most("block_count", _MAX_LAYERS, self.integer("block_count"))

    @property
    def n_embd(self) -> int:
        return self.integer("embedding_length")

    @property
    def n_head(self) -> int:
        heads = self.integer("attention.head_count")
        if heads > self.n_embd:
            raise self.bad("attention.head_count", f"is {heads}, more than the embedding's length")
        return heads

    @property
    def n_head_kv(self) -> int:
        """Those of the layers that have any, all of them the same number."""
        key, heads = "attention.head_count_kv", self.n_head
        some = {n for n in self.per_layer(key) if n} if self.has(key) else {heads}
        if len(some) != 1:
            raise self.bad(key, "differs from layer to layer, which isn't supported")
        kv_heads = some.pop()
        if heads % kv_heads:
            raise self.bad(key, f"is {kv_heads}, no divisor of {heads}")
        return kv_heads

    @property
    def head_dim(self) -> int:
        length = self.integer("attention.key_length", self.n_embd // self.n_head)
        value_length = self.integer("attention.value_length", length)
        if length != value_length:
            raise self.bad("attention.value_length", f"is {value_length}, not {length}")
        if length % 2:
            raise self.bad("attention.key_length", f"is {length}, an odd number")
        return length

    @property
    def n_rot(self) -> int:
        dims = self.integer("rope.dimension_count", self.head_dim)
        if dims > self.head_dim or dims % 2:
            raise self.bad("rope.dimension_count", f"is {dims}, with heads of {self.head_dim}")
        return dims

    @property
    def n_ctx_train(self) -> int:
        return self.integer("context_length")

    @property
    def n_expert(self) -> int:
        return self._at_most("expert_count", _MAX_EXPERTS, self.integer("expert_count", 0, least=0))

    @property
    def n_expert_used(self) -> int:
        used = self.integer("expert_used_count")
        return self._at_most("expert_used_count", self.n_expert, used)

    def _at_most(self, key: str, most: int, value: int) -> int:
        if value > most:
            raise self.bad(key, f"is {value}, more than {most}")
        return value

    def only(self, key: str, wanted: float, default: float) -> None:
        """Refuse a model that sets this key otherwise: it would silently run wrongly."""
        if self.number(key, default) != wanted:
            raise ModelError(
                f"{self.path}: {self.architecture} models with '{self.architecture}.{key}' set "
                f"to {self.value(key)} aren't supported"
            )
