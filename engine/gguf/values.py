"""Turns the stored bytes of a tensor into float32 values, or into MLX's own quantised form."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.gguf.affine import AFFINE, AffineForm, Bytes, Floats, shifted_left
from engine.gguf.types import TensorType

# Big enough that Python's part is small, small enough that a chunk stays in the processor's cache.
_CHUNK_VALUES = 1 << 17
_MLX_GROUP_SIZES = (32, 64, 128)
# ggml's scratch types, which no model file holds.
_WITHOUT_VALUES = frozenset({"q8_1", "q8_K"})
_PLAIN = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i8": "i1"} | {
    f"i{bits}": f"<i{bits // 8}" for bits in (16, 32, 64)
}


class Packed(NamedTuple):
    """A matrix as `mx.quantized_matmul` takes it: affine, in groups along the rows.

    `weight` is uint32 [..., rows, columns * bits / 32]; `scales` and `biases` are float16 where
    that loses nothing, else float32, [..., rows, columns / group_size].
    """

    weight: npt.NDArray[np.uint32]
    scales: npt.NDArray[Any]
    biases: npt.NDArray[Any]
    bits: int
    group_size: int


def has_values(kind: TensorType) -> bool:
    """Whether `fill_float32` knows this type."""
    return kind.name not in _WITHOUT_VALUES


def fill_float32(
    raw: Bytes, kind: TensorType, out: Floats, executor: Executor | None = None
) -> None:
    """Write a tensor's values into `out`, float32 of any shape, contiguous, as many as `raw` holds.

    Works in chunks, on `executor`'s threads if there are any, so little memory is used besides
    `out`. The values are those of `gguf.quants.dequantize`. Raises `ValueError` for a type
    without values (see `has_values`).
    """
    if not has_values(kind):
        raise ValueError(f"tensors of type {kind.name} hold no values that can be computed with")
    blocks = raw.reshape(-1, kind.block_bytes)
    values = out.reshape(-1, kind.block_values)
    step = max(1, _CHUNK_VALUES // kind.block_values)
    fill = _filler(kind)

    def work(start: int) -> None:
        fill(blocks[start : start + step], values[start : start + step])

    run = map if executor is None else executor.map
    for _ in run(work, range(0, len(blocks), step)):
        pass


def _filler(kind: TensorType) -> Callable[[Bytes, Floats], None]:
    if kind.name in AFFINE:
        return lambda blocks, out: _fill_affine(kind, blocks, out)
    if kind.name == "bf16":
        return _fill_bfloat16
    if kind.name in _PLAIN:
        return lambda blocks, out: np.copyto(out, blocks.view(_PLAIN[kind.name]), casting="unsafe")
    return lambda blocks, out: _fill_by_gguf(kind, blocks, out)


def _fill_affine(kind: TensorType, blocks: Bytes, out: Floats) -> None:
    form = AFFINE[kind.name]
    groups = form.unpack(blocks)
    grouped = out.reshape(-1, form.group_size)
    np.multiply(groups.quants, groups.scales, out=grouped, dtype=np.float32)
    np.add(grouped, groups.biases, out=grouped)


def _fill_bfloat16(blocks: Bytes, out: Floats) -> None:
    words = out.view(np.uint32)
    np.copyto(words, blocks.view("<u2"))
    np.left_shift(words, 16, out=words)


def _fill_by_gguf(kind: TensorType, blocks: Bytes, out: Floats) -> None:
    # Imported here since loading most files needs none of it.
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    # Blocks of random bytes hold NaN and infinite scales; real files may hold them too.
    with np.errstate(all="ignore"):
        out[...] = dequantize(blocks, GGMLQuantizationType(kind.number)).reshape(out.shape)


def mlx_form(kind: TensorType) -> AffineForm | None:
    """How MLX's quantised form holds this type; None if it can't hold it exactly."""
    form = AFFINE.get(kind.name)
    return form if form and form.group_size in _MLX_GROUP_SIZES else None


def pack(raw: Bytes, kind: TensorType, shape: tuple[int, ...]) -> Packed:
    """Repack a quantised tensor of `shape` [..., rows, columns] for MLX, with the same values.

    Needs a type for which `mlx_form` isn't None.
    """
    form = AFFINE[kind.name]
    blocks = raw.reshape(-1, kind.block_bytes)
    per_block = kind.block_values // form.group_size
    n_groups = len(blocks) * per_block
    weight = np.empty((n_groups, form.group_size * form.bits // 8), np.uint8)
    scales = np.empty((n_groups, 1), np.float32)
    biases = np.empty((n_groups, 1), np.float32)
    step = max(1, _CHUNK_VALUES // kind.block_values)
    for start in range(0, len(blocks), step):
        groups = form.unpack(blocks[start : start + step])
        span = slice(start * per_block, start * per_block + len(groups.quants))
        weight[span] = _pack_bits(groups.quants, form.bits)
        scales[span], biases[span] = groups.scales, groups.biases
    leading = shape[:-1]
    half = form.half_scales and bool((np.abs([scales, biases]) <= np.finfo(np.float16).max).all())
    dtype = np.float16 if half else np.float32
    return Packed(
        weight.view("<u4").reshape(*leading, -1),
        scales.astype(dtype).reshape(*leading, -1),
        biases.astype(dtype).reshape(*leading, -1),
        form.bits,
        form.group_size,
    )


class PackedFours(NamedTuple):
    """A matrix as `mx.quantized_matmul` takes it in its mode "mxfp4", in groups of 32.

    `weight` is uint32 [..., rows, columns / 8]; `scales` uint8 [..., rows, columns / 32].
    """

    weight: npt.NDArray[np.uint32]
    scales: Bytes


def pack_mxfp4(raw: Bytes, shape: tuple[int, ...]) -> PackedFours:
    """Repack a tensor of type mxfp4 and of `shape` [..., rows, columns] for MLX, value by value.

    Both have the same scales and the same four bits for a value; ggml has the second half of a
    group in the upper bits of the first.
    """
    blocks = raw.reshape(-1, 17)
    quants = np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], axis=1)
    leading = shape[:-1]
    weight = _pack_bits(quants, 4).view("<u4").reshape(*leading, -1)
    return PackedFours(weight, blocks[:, 0].copy().reshape(*leading, -1))


def _pack_bits(quants: Bytes, bits: int) -> Bytes:
    """Quants [n, k] as one stream of `bits` bits each, lowest first: [n, k * bits / 8] bytes."""
    if bits == 8:
        return quants
    if bits == 4:
        return quants[:, 0::2] | shifted_left(quants[:, 1::2], 4)
    each = np.unpackbits(quants[:, :, None], axis=2, count=bits, bitorder="little")
    return np.packbits(each.reshape(len(quants), -1), axis=1, bitorder="little")
