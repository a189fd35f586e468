"""One process's part of a model that several hold together, cut out while it is loaded.

mlx-lm's models say themselves how they are cut (`shard`): heads and feed-forward rows are divided
among the processes; embeddings, norms and the output layer are whole in each.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.types import Weights

_LAYER = re.compile(r"\blayers\.(\d+)\.")
_HEADS = ("n_heads", "num_heads", "num_attention_heads", "n_kv_heads", "num_key_value_heads")


@dataclass(frozen=True)
class Share:
    """How a model is divided, and this process's part of it."""

    group: Any
    """MLX's group of all processes."""
    agree: Callable[[Weights, int], Weights]
    """Called once with the weights that suit this process and the number of the model's values;
    gives the weights that all are to load. Raises `ModelError` if they can't load the same."""

    @property
    def size(self) -> int:
        """How many processes there are."""
        return int(self.group.size())

    def check(self, model: Any, name: str) -> None:
        """Raise `ModelError`, which calls it `name`, if a model can't be divided like this."""
        if not hasattr(model, "shard"):
            raise ModelError(
                f"{name}: mlx-lm can't share models of this architecture between processes:"
                " start it in one"
            )
        heads = math.gcd(*(n for layer in model.layers for n in _heads(layer)))
        if heads % self.size:
            raise ModelError(
                f"{name}: its attention heads can't be divided among {self.size} processes:"
                f" start {_divisors(heads)}"
            )

    def cut(self, model: Any, name: str) -> None:
        """Leave only this process's part of `model`, as a plan: nothing is evaluated."""
        self.check(model, name)
        try:
            model.shard(self.group)
        except (ValueError, TypeError) as error:
            raise self._unfit(name, error) from None

    def _unfit(self, name: str, error: Exception) -> ModelError:
        reason = " ".join(str(error).split())
        return ModelError(
            f"{name} can't be divided among {self.size} processes ({reason}):"
            " start another number of them"
        )


class LayerCutter:
    """Cuts each layer of a model as soon as it is filled: no more is whole than one of them."""

    def __init__(self, share: Share, model: Any, paths: Iterable[str], name: str) -> None:
        """`paths` are those of all parameters that will be filled."""
        self._share = share
        self._model = model
        self._name = name
        self._missing = Counter(_layer_of(path) for path in paths)

    def filled(self, path: str) -> None:
        """A parameter has its values."""
        layer = _layer_of(path)
        self._missing[layer] -= 1
        if layer is not None and self._missing[layer] == 0:
            self._cut(layer)

    def _cut(self, number: int) -> None:
        backbone = self._model.model
        layers = backbone.layers
        backbone.layers = [layers[number]]
        try:
            self._share.cut(self._model, self._name)
            mx.eval(layers[number].parameters())
        finally:
            backbone.layers = layers


def _layer_of(path: str) -> int | None:
    found = _LAYER.search(path)
    return int(found[1]) if found else None


def _heads(layer: Any) -> list[int]:
    """How many heads of each kind a layer's attention has, as far as that can be told."""
    attention = getattr(layer, "self_attn", None)
    counts = [getattr(attention, name, None) for name in _HEADS]
    return [count for count in counts if isinstance(count, int) and count > 0]


def _divisors(number: int) -> str:
    """The numbers above 1 that divide another, as a choice."""
    found = [str(n) for n in range(2, number + 1) if number % n == 0]
    return " or ".join(found) if found else "one"
