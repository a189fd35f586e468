"""Reads weight matrices into panels, and makes the layers that multiply with them."""

from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedEmbedding, QuantizedLinear
from mlx.utils import tree_unflatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from engine.gguf.affine import AFFINE
from engine.gguf.types import TensorType
from engine.gguf.values import fill_float32
from engine.panels.form import LANES, Form
from engine.panels.layers import PanelEmbedding, PanelLinear, PanelSwitchLinear
from engine.panels.matrix import PanelExperts, PanelMatrix
from engine.panels.pack import affine_form, float_form, pack_affine, pack_floats, panel_bytes

Bytes = npt.NDArray[np.uint8]

# Big enough that Python's part is small, small enough that a chunk stays in the processor's cache.
_CHUNK_VALUES = 1 << 17
_FLOATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def panel_form(module: Any, kind: TensorType) -> Form | None:
    """How panels hold the weights of a layer exactly; None for one that can't be of panels.

    The layer must be of a plain kind, none derived from it, and the weights whole groups; no panel
    may hold rows of two experts.
    """
    if not _is_plain(module):
        return None
    n_columns = module.weight.shape[-1]
    affine = AFFINE.get(kind.name)
    if affine is not None:
        form = affine_form(affine.bits, affine.group_size, half_scales=affine.half_scales)
        if n_columns % form.group_size == 0:
            return form
    form = float_form(_FLOATS.get(kind.name, "float32"))
    return form if n_columns % form.group_size == 0 else None


def read_panels(
    raw: Bytes, kind: TensorType, n_rows: int, form: Form, executor: Executor | None = None
) -> PanelMatrix:
    """The panels of a GGUF tensor's bytes, in the form that `panel_form` gave."""
    n_columns = len(raw) // kind.block_bytes * kind.block_values // n_rows
    if form.half_scales and not _biases_are_halves(raw, kind):
        form = replace(form, half_scales=False)
    rows = raw.reshape(n_rows, -1)
    data = mx.zeros((-(-n_rows // LANES), panel_bytes(form, n_columns)), mx.uint8)
    mx.eval(data)
    # numpy writes straight into the array's memory, so the values exist only once.
    view = np.array(data, copy=False)
    step = max(1, _CHUNK_VALUES // (LANES * n_columns)) * LANES

    def work(start: int) -> None:
        packed = _packed(rows[start : start + step], kind, n_columns, form)
        view[start // LANES : start // LANES + len(packed)] = packed

    run = map if executor is None else executor.map
    for _ in run(work, range(0, n_rows, step)):
        pass
    return PanelMatrix(data, form, n_rows, n_columns)


def _packed(rows: Bytes, kind: TensorType, n_columns: int, form: Form) -> Bytes:
    if form.kind == "affine":
        groups = AFFINE[kind.name].unpack(rows.reshape(-1, kind.block_bytes))
        shape = (len(rows), -1)
        return pack_affine(
            groups.quants.reshape(shape),
            groups.scales.reshape(shape),
            groups.biases.reshape(shape),
            form,
        )
    if _FLOATS.get(kind.name) == form.kind:
        return pack_floats(rows.view(f"<u{form.bits // 8}"))
    values = np.empty((len(rows), n_columns), np.float32)
    fill_float32(rows, kind, values)
    return pack_floats(values)


def _biases_are_halves(raw: Bytes, kind: TensorType) -> bool:
    """Whether a quantised tensor's biases, multiples of its scales, are in float16's range."""
    affine = AFFINE[kind.name]
    blocks = raw.reshape(-1, kind.block_bytes)
    step = max(1, _CHUNK_VALUES // kind.block_values)
    most = np.finfo(np.float16).max
    for start in range(0, len(blocks), step):
        groups = affine.unpack(blocks[start : start + step])
        if not (np.abs(groups.biases) <= most).all():
            return False
    return True


def _is_plain(module: Any) -> bool:
    if type(module) in (SwitchLinear, QuantizedSwitchLinear):
        return bool(module.output_dims % LANES == 0)
    return type(module) in (Linear, QuantizedLinear, Embedding, QuantizedEmbedding)


def use_panels(model: Any, matrices: dict[str, PanelMatrix]) -> None:
    """Put layers of panels in the place of the layers with these paths."""
    modules: dict[str, Any] = dict(model.named_modules())
    layers: list[tuple[str, Module]] = []
    for path, matrix in matrices.items():
        old = modules[path]
        if isinstance(old, Embedding | QuantizedEmbedding):
            layers.append((path, PanelEmbedding(matrix)))
        elif isinstance(old, SwitchLinear | QuantizedSwitchLinear):
            experts = PanelExperts(matrix, old.num_experts)
            layers.append((path, PanelSwitchLinear(experts, old.get("bias"))))
        else:
            layers.append((path, PanelLinear(matrix, old.get("bias"))))
    model.update_modules(tree_unflatten(layers))


def panels_of(module: Any) -> PanelMatrix | None:
    """The panels of a layer that mlx-lm loaded, None if it isn't of a kind that can be one."""
    if not _is_plain(module):
        return None
    if "scales" in module:
        return _quantised_panels(module) if module.mode == "affine" else None
    weight = module.weight.reshape(-1, module.weight.shape[-1])
    form = float_form(str(weight.dtype).removeprefix("mlx.core."))
    if form.kind == "bfloat16":
        weight = weight.view(mx.uint16)
    elif form.kind == "float32":
        weight = weight.astype(mx.float32)
    n_rows, n_columns = weight.shape
    if n_columns % form.group_size:
        return None
    return _matrix(pack_floats(np.array(weight)), form, n_rows, n_columns)


def _quantised_panels(module: Any) -> PanelMatrix:
    ones, zeros = mx.ones_like(module.scales), mx.zeros_like(module.scales)
    bits, group_size = module.bits, module.group_size
    quants = mx.dequantize(
        module.weight, ones.astype(mx.float32), zeros.astype(mx.float32), group_size, bits
    ).astype(mx.uint8)
    quants = quants.reshape(-1, quants.shape[-1])
    halves = module.scales.dtype == mx.float16
    form = affine_form(bits, group_size, half_scales=halves)
    scales, biases = (
        np.array(each.astype(mx.float32).reshape(len(quants), -1))
        for each in (module.scales, module.biases)
    )
    n_rows, n_columns = quants.shape
    return _matrix(pack_affine(np.array(quants), scales, biases, form), form, n_rows, n_columns)


def _matrix(packed: Bytes, form: Form, n_rows: int, n_columns: int) -> PanelMatrix:
    return PanelMatrix(mx.array(packed), form, n_rows, n_columns)
