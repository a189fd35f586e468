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
_ATTENTION = ("self_attn", "linear_attn")
_HEADS = (
    *("n_heads", "num_heads", "num_attention_heads", "num_v_heads"),
    *("n_kv_heads", "num_key_value_heads", "num_k_heads"),
)


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
        except (ValueError, TypeError, AssertionError) as error:
            raise self._unfit(name, error) from None

    def _unfit(self, name: str, error: Exception) -> ModelError:
        reason = " ".join(str(error).split())
        return ModelError(
            f"{name} can't be divided among {self.size} processes ({reason}):"
            " start another number of them"
        )


class LayerCutter:
    """Cuts each layer of a model as soon as it is filled: no more is whole than one of them.

    Where mlx-lm cuts more than layers, all is cut when all is filled.
    """

    def __init__(self, share: Share, model: Any, paths: Iterable[str], name: str) -> None:
        """`paths` are those of all parameters that will be filled."""
        self._share = share
        self._model = model
        self._name = name
        share.check(model, name)
        self._by_layer = hasattr(getattr(model, "model", None), "layers")
        self._missing = Counter(map(self._piece_of, paths))

    def filled(self, path: str) -> None:
        """A parameter has its values."""
        piece = self._piece_of(path)
        self._missing[piece] -= 1
        if self._missing[piece] > 0:
            return
        if not self._by_layer:
            self._share.cut(self._model, self._name)
            mx.eval(self._model.parameters())
        elif piece is not None:
            self._cut_layer(piece)

    def _piece_of(self, path: str) -> int | None:
        """The layer that is cut for itself when this parameter is filled; None for the rest."""
        found = _LAYER.search(path) if self._by_layer else None
        return int(found[1]) if found else None

    def _cut_layer(self, number: int) -> None:
        backbone = self._model.model
        layers = backbone.layers
        backbone.layers = [layers[number]]
        try:
            self._share.cut(self._model, self._name)
            mx.eval(layers[number].parameters())
        finally:
            backbone.layers = layers


def _heads(layer: Any) -> list[int]:
    """How many heads of each kind a layer's attention has, as far as that can be told."""
    attention = [getattr(layer, name, None) for name in _ATTENTION]
    counts = [getattr(one, name, None) for one in attention for name in _HEADS]
    return [count for count in counts if isinstance(count, int) and count > 0]


def _divisors(number: int) -> str:
    """The numbers above 1 that divide another, as a choice."""
    found = [str(n) for n in range(2, number + 1) if number % n == 0]
    return " or ".join(found) if found else "one"
