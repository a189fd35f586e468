"""Several slots in one step: every row comes out as it would alone."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import RotatingKVCache, make_prompt_cache

from engine.batching import forward, largest_exact_batch
from tests.tiny_llama import load

TEXTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]


def rows(sizes: list[int]) -> np.ndarray:
    """Logits of one more token for each text, after a step of others, in batches of `sizes`."""
    model = load().model
    caches = [make_prompt_cache(model) for _ in TEXTS]
    largest_exact_batch(model, [make_prompt_cache(model) for _ in TEXTS])
    for text, layers in zip(TEXTS, caches, strict=True):
        model(mx.array([text]), cache=layers)
    out = []
    for tokens in ([10, 20, 30], [11, 21, 31]):
        out, at = [], 0
        for size in sizes:
            out.append(forward(model, tokens[at : at + size], caches[at : at + size]))
            at += size
    return np.array(mx.concatenate(out))


@pytest.mark.parametrize("sizes", [[3], [2, 1], [1, 2]])
def test_a_batch_gives_what_each_gets_alone(sizes: list[int]) -> None:
    np.testing.assert_allclose(rows(sizes), rows([1, 1, 1]), rtol=1e-4, atol=1e-4)


def test_batches_are_as_large_as_rows_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load().model

    def caches() -> list:
        return [make_prompt_cache(model) for _ in range(3)]

    exact = largest_exact_batch(model, caches())
    assert 1 <= exact <= 3
    linear = type(model.lm_head)
    plain = linear.__call__
    with monkeypatch.context() as patch:
        # A product whose rows differ from three on.
        patch.setattr(linear, "__call__", lambda self, x: plain(self, x) + (len(x) > 2) * 1e-3)
        assert largest_exact_batch(model, caches()) == min(exact, 2)


def test_other_caches_are_served_one_by_one() -> None:
    model = load().model
    sliding = [[RotatingKVCache(8) for _ in model.layers] for _ in range(2)]
    assert largest_exact_batch(model, sliding) == 1


def test_a_model_that_takes_no_batch_is_served_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load().model
    attention = type(model.layers[0].self_attn)
    plain = attention.__call__

    def demanding(self: object, x: mx.array, *args: object) -> mx.array:
        if len(x) > 1:
            raise ValueError("one at a time, please")
        return plain(self, x, *args)

    with monkeypatch.context() as patch:
        patch.setattr(attention, "__call__", demanding)
        assert largest_exact_batch(model, [make_prompt_cache(model) for _ in range(2)]) == 1
