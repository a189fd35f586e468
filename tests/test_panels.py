"""Products with panels: the right numbers, and the same ones in any company."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.panels.form import BFLOAT16, FLOAT16, FLOAT32, Form
from engine.panels.layers import PanelEmbedding, PanelLinear
from engine.panels.matrix import PanelExperts, PanelMatrix
from engine.panels.native import available
from engine.panels.pack import affine_form, pack_affine, pack_floats

pytestmark = pytest.mark.skipif(not available(), reason="panels are for CPUs under Linux")

FORMS = [
    FLOAT32,
    FLOAT16,
    BFLOAT16,
    affine_form(4, 32, half_scales=True),
    affine_form(4, 32, half_scales=False),
    affine_form(2, 64, half_scales=True),
    affine_form(8, 32, half_scales=True),
    affine_form(6, 16, half_scales=False),
]
# Rows that fill panels, and rows that don't; more groups than one thread takes.
SHAPES = [(16, 64), (100, 128), (515, 576)]


def made(form: Form, n_rows: int, n_columns: int) -> tuple[PanelMatrix, Any]:
    """A matrix of random weights, and its values as float64 [n_rows, n_columns]."""
    rng = np.random.default_rng(n_rows)
    if form.kind != "affine":
        halves = rng.standard_normal((n_rows, n_columns)).astype(np.float16)
        values = halves.astype(np.float32)
        stored: Any = values if form == FLOAT32 else halves
        if form == BFLOAT16:
            stored = (values.view(np.uint32) >> 16).astype(np.uint16)
            values = (stored.astype(np.uint32) << 16).view(np.float32)
        packed = pack_floats(stored)
    else:
        groups = (n_rows, n_columns // form.group_size)
        quants = rng.integers(0, 2**form.bits, (n_rows, n_columns)).astype(np.uint8)
        scales, biases = rng.random((2, *groups)).astype(np.float16).astype(np.float32)
        packed = pack_affine(quants, scales, biases, form)
        wide = (np.repeat(each, form.group_size, axis=1) for each in (scales, biases))
        values = quants * next(wide) + next(wide)
    return PanelMatrix(mx.array(packed), form, n_rows, n_columns), values.astype(np.float64)


def inputs(n: int, n_columns: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, n_columns)).astype(np.float32)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_values(form: Form, shape: tuple[int, int]) -> None:
    matrix, values = made(form, *shape)
    x = inputs(13, shape[1])
    product, expected = np.array(matrix.product(mx.array(x))), x @ values.T
    assert np.abs(product - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_row_is_the_same_in_any_company(form: Form) -> None:
    matrix, _ = made(form, 515, 576)
    x = mx.array(inputs(40, 576))
    together = np.array(matrix.product(x))
    for size in (1, 2, 3, 4, 5, 6, 7, 8, 16, 33):
        for start in (0, 7):
            rows = slice(start, start + size)
            assert np.array_equal(np.array(matrix.product(x[rows])), together[rows])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_rows_are_the_values(form: Form) -> None:
    matrix, values = made(form, 100, 128)
    which = [[0, 99], [17, 16], [15, 17]]
    rows = PanelEmbedding(matrix)(mx.array(which))
    np.testing.assert_allclose(np.array(rows), values[which], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.array(PanelLinear(matrix).weight), values, rtol=1e-6, atol=1e-6)


def test_a_layer_adds_its_bias_and_takes_any_leading_shape() -> None:
    matrix, values = made(FLOAT32, 100, 128)
    bias, x = inputs(1, 100)[0], inputs(6, 128).reshape(2, 3, 128)
    layer = PanelLinear(matrix, mx.array(bias))
    expected = x @ values.T + bias
    np.testing.assert_allclose(np.array(layer(mx.array(x))), expected, rtol=1e-4, atol=1e-3)


def test_products_of_several_threads_at_once() -> None:
    matrix, _ = made(FORMS[3], 515, 576)
    x = inputs(5, 576)
    expected = np.array(matrix.product(mx.array(x)))

    def product(_: int) -> bool:
        with mx.stream(mx.new_stream(mx.cpu)):
            return np.array_equal(np.array(matrix.product(mx.array(x))), expected)

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(product, range(200)))


def test_other_products_are_left_to_blas() -> None:
    x, w = inputs(9, 300), inputs(70, 300)
    product = np.array(mx.array(x) @ mx.array(w).T)
    np.testing.assert_allclose(product, x @ w.T, rtol=1e-4, atol=1e-3)


def test_experts_with_few_tokens_and_with_many() -> None:
    matrix, values = made(FLOAT32, 8 * 48, 64)
    experts, x = PanelExperts(matrix, 8), inputs(40, 64)
    chosen = np.sort(np.random.default_rng(0).integers(0, 8, 40))
    expected = np.einsum("nc,nrc->nr", x, values.reshape(8, 48, 64)[chosen])[:, None]
    for in_order in (False, True):
        out = experts.product(mx.array(x[:, None]), mx.array(chosen), in_order=in_order)
        np.testing.assert_allclose(np.array(out), expected, rtol=1e-4, atol=1e-3)
