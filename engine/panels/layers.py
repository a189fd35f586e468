"""Layers of a model whose weights are panels."""

import mlx.core as mx
from mlx.nn.layers.base import Module

from engine.panels.matrix import PanelExperts, PanelMatrix


class PanelLayer(Module):
    """A layer with one matrix, [n_rows, n_columns]."""

    def __init__(self, matrix: PanelMatrix) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.matrix = matrix

    @property
    def weight(self) -> mx.array:
        """The values, float32 [n_rows, n_columns]: for models' code that looks at them."""
        return self.matrix.rows(mx.arange(self.matrix.n_rows))


class PanelLinear(PanelLayer):
    """A linear layer: its weights as panels, and a bias if there is one."""

    def __init__(self, matrix: PanelMatrix, bias: mx.array | None = None) -> None:
        super().__init__(matrix)
        if bias is not None:
            self.bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        product = self.matrix.product(x)
        return product + self["bias"] if "bias" in self else product


class PanelEmbedding(PanelLayer):
    """An embedding, whose vectors may be the output layer's weights too."""

    def __call__(self, tokens: mx.array) -> mx.array:
        return self.matrix.rows(tokens)

    def as_linear(self, x: mx.array) -> mx.array:
        """`x` float32 [..., n_columns] times all vectors: float32 [..., n_vocab]."""
        return self.matrix.product(x)


class PanelSwitchLinear(PanelLayer):
    """Linear layers of many experts, of which each token has some: mlx-lm's `SwitchLinear`."""

    def __init__(self, experts: PanelExperts, bias: mx.array | None = None) -> None:
        """`bias` is [n_experts, n_rows]."""
        super().__init__(experts.all_rows)
        self.experts = experts
        if bias is not None:
            self.bias = bias

    @property
    def weight(self) -> mx.array:
        """The values, float32 [n_experts, n_rows, n_columns]."""
        values = self.matrix.rows(mx.arange(self.matrix.n_rows))
        return values.reshape(self.experts.n_experts, self.experts.n_rows, -1)

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        """As mlx-lm's."""
        product = self.experts.product(x, indices, in_order=sorted_indices)
        if "bias" in self:
            product = product + mx.expand_dims(self["bias"][indices], -2)
        return product
