"""Every ggml type's values against gguf's own dequantisation, as float32 and in MLX's form."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from engine.gguf.types import BY_NAME
from engine.gguf.values import fill_float32, has_values, mlx_form, pack
from tests import made_models

ROWS, COLUMNS = 24, 512
QUANTISED = [name for name, kind in BY_NAME.items() if kind.block_values > 1]


def random_blocks(name: str) -> npt.NDArray[np.uint8]:
    """Blocks as a model could have: [rows, bytes of a row]."""
    kind = BY_NAME[name]
    return made_models.random_blocks(
        name, kind.number, (kind.block_values, kind.block_bytes), (ROWS, COLUMNS)
    )


def split(blocks: npt.NDArray[np.uint8], size: int) -> tuple[Any, npt.NDArray[np.uint8]]:
    """Blocks that begin with a float16, as [rows, blocks, 1] scales and [rows, blocks, k] bytes."""
    each = blocks.reshape(ROWS, -1, size)
    return each[..., :2].copy().view("<f2").astype(np.float32), each[..., 2:]


def expected_values(name: str, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    if name == "q1_0":
        scales, packed = split(blocks, 18)
        return np.where(np.unpackbits(packed, axis=2, bitorder="little"), scales, -scales)
    if name == "q2_0":
        scales, packed = split(blocks, 18)
        return scales[..., None] * ((packed[..., None] >> np.array([0, 2, 4, 6])) % 4 - 1.0)
    return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(BY_NAME[name].number))


def test_the_table_is_ggufs() -> None:
    ours = {k.number: (k.name.upper(), k.block_values, k.block_bytes) for k in BY_NAME.values()}
    theirs = {t.value: (t.name, *size) for t, size in gguf.constants.GGML_QUANT_SIZES.items()}
    ours.pop(42)  # Q2_0 is newer than the gguf package, and Q8_1 has shrunk since.
    theirs[9] = ("Q8_1", 32, 36)
    assert ours == theirs


@pytest.mark.parametrize("name", [n for n in QUANTISED if has_values(BY_NAME[n])])
def test_float32_values(name: str) -> None:
    blocks = random_blocks(name)
    values = np.empty((ROWS, COLUMNS), np.float32)
    fill_float32(blocks.reshape(-1), BY_NAME[name], values)
    expected = expected_values(name, blocks).reshape(ROWS, COLUMNS)
    assert np.isfinite(expected).all() and np.abs(expected).max() > 0
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", ["q8_1", "q8_K"])
def test_types_without_values(name: str) -> None:
    kind = BY_NAME[name]
    raw, out = np.zeros(kind.block_bytes, np.uint8), np.empty(kind.block_values, np.float32)
    assert not has_values(kind)
    with pytest.raises(ValueError, match=f"^tensors of type {name} hold no values"):
        fill_float32(raw, kind, out)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("f32", "f4"), ("f16", "f2"), ("f64", "f8"), ("i8", "i1"), ("i16", "i2"), ("i32", "i4")],
)
def test_plain_values(name: str, dtype: str) -> None:
    stored = (np.random.default_rng(1).standard_normal(1000) * 100).astype(dtype)
    values = np.empty(1000, np.float32)
    fill_float32(stored.view(np.uint8), BY_NAME[name], values)
    np.testing.assert_array_equal(values, stored.astype(np.float32))


def test_bfloat16_values() -> None:
    stored = np.random.default_rng(2).standard_normal(1000).astype("<f4").view("<u2")[1::2].copy()
    values = np.empty(1000, np.float32)
    fill_float32(stored.view(np.uint8), BY_NAME["bf16"], values)
    np.testing.assert_array_equal(values, (stored.astype("<u4") << 16).view("<f4"))


def test_chunks_and_threads_change_nothing() -> None:
    kind = BY_NAME["q6_K"]
    raw = np.tile(random_blocks("q6_K").reshape(-1), 100)
    values = np.empty((100, ROWS, COLUMNS), np.float32)
    with ThreadPoolExecutor(3) as executor:
        fill_float32(raw, kind, values, executor)
    expected = expected_values("q6_K", random_blocks("q6_K"))
    np.testing.assert_array_equal(values, np.broadcast_to(expected, values.shape))


EXACT_IN_MLX = {
    "q4_0": 4, "q4_1": 4, "q5_0": 5, "q5_1": 5, "q8_0": 8, "q4_K": 4, "q5_K": 5,
    "q1_0": 2, "q2_0": 2,
}  # fmt: skip


def test_which_types_mlx_can_hold() -> None:
    assert {n: form.bits for n, k in BY_NAME.items() if (form := mlx_form(k))} == EXACT_IN_MLX


@pytest.mark.parametrize("name", EXACT_IN_MLX)
def test_packed_for_mlx(name: str) -> None:
    """MLX's dequantised weights are gguf's values, and its matmul is a product with them."""
    blocks = random_blocks(name)
    expected = expected_values(name, blocks).reshape(ROWS, COLUMNS)
    packed = pack(blocks.reshape(-1), BY_NAME[name], (ROWS, COLUMNS))
    assert packed.scales.dtype == (np.float32 if name.endswith("_K") else np.float16)
    parts = [mx.array(part) for part in (packed.weight, packed.scales, packed.biases)]
    in_float32 = [parts[0], parts[1].astype(mx.float32), parts[2].astype(mx.float32)]
    values = mx.dequantize(*in_float32, packed.group_size, packed.bits)
    np.testing.assert_allclose(np.array(values), expected, rtol=1e-6, atol=1e-6)
    x = np.random.default_rng(3).standard_normal((3, COLUMNS)).astype(np.float32)
    form = {"group_size": packed.group_size, "bits": packed.bits}
    product = mx.quantized_matmul(mx.array(x), *parts, **form)
    np.testing.assert_allclose(np.array(product), x @ expected.T, rtol=1e-4, atol=1e-3)


def test_experts_keep_their_shape() -> None:
    packed = pack(random_blocks("q5_1").reshape(-1), BY_NAME["q5_1"], (2, ROWS // 2, COLUMNS))
    assert packed.weight.shape == (2, ROWS // 2, COLUMNS * 5 // 32)
    assert packed.scales.shape == packed.biases.shape == (2, ROWS // 2, COLUMNS // 32)


def test_biases_too_big_for_float16_stay_float32() -> None:
    blocks = random_blocks("q8_0")
    blocks[0, :2] = np.array([1000], "<f2").view(np.uint8)
    packed = pack(blocks.reshape(-1), BY_NAME["q8_0"], (ROWS, COLUMNS))
    assert packed.biases.dtype == np.float32 and packed.biases[0, 0] == -128000
