"""Puts weight matrices into panels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.panels.form import BFLOAT16, FLOAT16, FLOAT32, LANES, Form
from engine.panels.native import converts_halves

Bytes = npt.NDArray[np.uint8]


def affine_form(bits: int, group_size: int, *, half_scales: bool) -> Form:
    """The form for quants of up to 8 bits."""
    return Form("affine", 4 if bits <= 4 else 8, group_size, half_scales and converts_halves())


def float_form(dtype: str) -> Form:
    """The form for numbers of "float32", "float16" or "bfloat16"."""
    if dtype == "bfloat16":
        return BFLOAT16
    return FLOAT16 if dtype == "float16" and converts_halves() else FLOAT32


def panel_bytes(form: Form, n_columns: int) -> int:
    """Bytes of a panel; raises ValueError if the columns aren't a whole number of groups."""
    n_groups, rest = divmod(n_columns, form.group_size)
    if rest:
        raise ValueError(f"{n_columns} columns aren't groups of {form.group_size}")
    return n_groups * form.group_bytes


def pack_affine(
    quants: Bytes, scales: npt.NDArray[Any], biases: npt.NDArray[Any], form: Form
) -> Bytes:
    """Panels of `quants * scales + biases`: uint8 [ceil(n_rows / 16), bytes of a panel].

    `quants` is [n_rows, n_columns], `scales` and `biases` are [n_rows, n_columns / group_size].
    """
    n_rows, n_columns = quants.shape
    n_panels, n_groups = -(-n_rows // LANES), n_columns // form.group_size
    data = np.empty((n_panels, n_groups, form.group_bytes), np.uint8)
    kind = np.float16 if form.half_scales else np.float32
    size = form.scale_bytes
    for at, values in ((0, scales), (size, biases)):
        # [panels, lanes, groups] to [panels, groups, lanes]
        lanes = _in_panels(values.astype(kind)).transpose(0, 2, 1)
        data[:, :, at : at + size] = np.ascontiguousarray(lanes).view(np.uint8)
    if form.bits == 4:
        quants = quants[:, 0::2] | np.left_shift(quants[:, 1::2], 4, dtype=np.uint8)
    by_column = _in_panels(quants).reshape(n_panels, LANES, n_groups, -1).transpose(0, 2, 3, 1)
    data[:, :, 2 * size :] = by_column.reshape(n_panels, n_groups, -1)
    return data.reshape(n_panels, -1)


def pack_floats(values: npt.NDArray[Any]) -> Bytes:
    """Panels of float32 or float16 numbers, or of bfloat16 ones given as uint16."""
    by_column = np.ascontiguousarray(_in_panels(values).transpose(0, 2, 1))
    return by_column.view(np.uint8).reshape(len(by_column), -1)


def _in_panels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[n_rows, n] to [panels, 16, n], with rows of zeros at the end."""
    missing = -len(values) % LANES
    if missing:
        values = np.pad(values, ((0, missing), (0, 0)))
    return values.reshape(-1, LANES, values.shape[1])
