"""A weight matrix that is held as panels."""

import mlx.core as mx
import numpy as np

from engine.panels.form import LANES, Form
from engine.panels.native import StandIns, address_of, kernel, stand_ins

_FLOATS: dict[str, mx.Dtype] = {
    "float32": mx.float32,
    "float16": mx.float16,
    "bfloat16": mx.bfloat16,
}


class PanelMatrix:
    """A matrix [n_rows, n_columns] whose values lie in panels."""

    def __init__(self, data: mx.array, form: Form, n_rows: int, n_columns: int) -> None:
        """`data` is uint8 [ceil(n_rows / 16), bytes of a panel], evaluated."""
        self.form = form
        self.n_rows = n_rows
        self.n_columns = n_columns
        self.data = data
        self._stand_in: mx.array | None = None

    def product(self, x: mx.array) -> mx.array:
        """`x` float32 [..., n_columns] times the matrix transposed: float32 [..., n_rows]."""
        if self._stand_in is None:
            self._stand_in = _stand_ins(self, 1).each[0]
        return x.astype(mx.float32) @ self._stand_in

    def rows(self, which: mx.array) -> mx.array:
        """Some of the rows: `which` is int [...], the result float32 [..., n_columns]."""
        index = which.reshape(-1)
        panels = self.data[index // LANES]
        lane = (index % LANES).reshape(-1, 1, 1)
        if self.form.kind == "affine":
            values = self._affine_rows(panels, lane)
        else:
            columns = panels.view(_FLOATS[self.form.kind]).reshape(len(index), -1, LANES)
            values = mx.take_along_axis(columns, lane, axis=2).astype(mx.float32)
        return values.reshape(*which.shape, self.n_columns)

    def _affine_rows(self, panels: mx.array, lane: mx.array) -> mx.array:
        form, n = self.form, len(panels)
        groups = panels.reshape(n, -1, form.group_bytes)

        def numbers(start: int) -> mx.array:
            stored = mx.contiguous(groups[:, :, start : start + form.scale_bytes])
            each = stored.view(mx.float16 if form.half_scales else mx.float32)
            return mx.take_along_axis(each, lane, axis=2).astype(mx.float32)

        scales, biases = numbers(0), numbers(form.scale_bytes)
        stored = groups[:, :, 2 * form.scale_bytes :].reshape(n, groups.shape[1], -1, LANES)
        quants = mx.take_along_axis(stored, lane[..., None], axis=3)
        if form.bits == 4:
            quants = mx.concatenate([quants & 15, quants >> 4], axis=3)
        return quants.reshape(n, groups.shape[1], -1).astype(mx.float32) * scales + biases


class PanelExperts:
    """Matrices [n_experts, n_rows, n_columns] whose values lie in panels, none shared by two."""

    def __init__(self, all_rows: PanelMatrix, n_experts: int) -> None:
        """`all_rows` is the matrix of all experts' rows, one expert after the other."""
        self.n_experts = n_experts
        self.n_rows = all_rows.n_rows // n_experts
        self.all_rows = all_rows
        self._stand_ins: StandIns | None = None

    def product(self, x: mx.array, experts: mx.array, *, in_order: bool) -> mx.array:
        """`x` float32 [..., 1, n_columns] times experts' matrices transposed: [..., 1, n_rows].

        `experts` is int [...], broadcast to `x`; with `in_order` it is one row, lowest first, and
        is evaluated: each matrix is then read once for all its rows.
        """
        if self._stand_ins is None:
            self._stand_ins = _stand_ins(self.all_rows, self.n_experts)
        x = x.astype(mx.float32)
        if not in_order:
            return mx.gather_mm(x, self._stand_ins.together, rhs_indices=experts)
        counts = np.bincount(np.array(experts), minlength=self.n_experts)
        ends = np.cumsum(counts)
        parts = [
            x[end - count : end, 0] @ self._stand_ins.each[expert]
            for expert, (count, end) in enumerate(zip(counts.tolist(), ends.tolist(), strict=True))
            if count
        ]
        return mx.concatenate(parts)[:, None]


def _stand_ins(matrix: PanelMatrix, n_experts: int) -> StandIns:
    """What stands for each expert's part of a matrix."""
    start = address_of(np.array(matrix.data, copy=False))
    n_rows = matrix.n_rows // n_experts
    step = matrix.data.shape[1] * (n_rows // LANES)
    shape = (n_rows, matrix.n_columns)
    n_groups = matrix.n_columns // matrix.form.group_size
    addresses = [start + expert * step for expert in range(n_experts)]
    return stand_ins(addresses, n_groups, shape, kernel(matrix.form))
