"""Several rows in one step: every one comes out as it would alone."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import RotatingKVCache, make_prompt_cache

from engine.running.batching import (
    batch_sizes,
    can_be_batched,
    forward,
    largest_exact_batch,
    use_own_attention,
)
from engine.running.runner import Runner
from tests.made_server import made, made_server
from tests.stepped import tokens_of
from tests.tiny_llama import load, sampling, task

TEXTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]


def rows(sizes: list[int]) -> np.ndarray:
    """Logits of one more token for each text, after a step of others, in batches of `sizes`."""
    model = load().model
    caches = [make_prompt_cache(model) for _ in TEXTS]
    largest_exact_batch(model, [make_prompt_cache(model) for _ in TEXTS], 3)
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


def test_rows_of_one_slot_follow_each_other() -> None:
    model = load().model
    largest_exact_batch(model, [make_prompt_cache(model)], 1)
    together, apart = make_prompt_cache(model), make_prompt_cache(model)
    other = make_prompt_cache(model)
    for layers in (together, apart, other):
        model(mx.array([TEXTS[0]]), cache=layers)
    rows = forward(model, [10, 11, 12, 20], [together] * 3 + [other])
    alone = [forward(model, [token], [apart])[0] for token in (10, 11, 12)]
    np.testing.assert_allclose(np.array(rows[:3]), np.array(mx.stack(alone)), rtol=1e-4, atol=1e-4)
    assert [together[0].offset, other[0].offset] == [6, 4]


@pytest.mark.parametrize(
    ("n_rows", "largest", "sizes"),
    [(5, 3, [3, 2]), (9, 64, [8, 1]), (3, 1, [1, 1, 1]), (65, 64, [64, 1]), (29, 24, [24, 5])],
)
def test_rows_are_shared_out_to_sizes_that_were_tried(
    n_rows: int, largest: int, sizes: list[int]
) -> None:
    assert list(batch_sizes(n_rows, largest)) == sizes


def test_batches_are_as_large_as_rows_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load().model

    def caches() -> list:
        return [make_prompt_cache(model) for _ in range(3)]

    exact = largest_exact_batch(model, caches(), 3)
    assert 1 <= exact <= 3
    linear = type(model.lm_head)
    plain = linear.__call__
    with monkeypatch.context() as patch:
        # A product whose rows differ from three on.
        patch.setattr(linear, "__call__", lambda self, x: plain(self, x) + (len(x) > 2) * 1e-3)
        assert largest_exact_batch(model, caches(), 3) == min(exact, 2)


def test_other_caches_are_served_one_by_one() -> None:
    model = load().model
    sliding = [[RotatingKVCache(8) for _ in model.layers] for _ in range(2)]
    assert largest_exact_batch(model, sliding, 2) == 1


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
        assert largest_exact_batch(model, [make_prompt_cache(model) for _ in range(2)], 2) == 1


@pytest.mark.parametrize("name", ["gemma3", "gpt-oss", "lfm2", "qwen35", "falcon-h1", "nemotron_h"])
def test_windows_and_states_are_batched_too(name: str) -> None:
    """Each row is what it is alone, also past the end of the window, and so is what follows."""
    runner = Runner(made(name).model, 265)
    assert can_be_batched(runner.new_cache().layers)
    use_own_attention(runner.model)
    rows = []
    for size in (1, 3):
        caches = [runner.new_cache() for _ in TEXTS]
        for text, cache in zip(TEXTS, caches, strict=True):
            runner.prefill(cache, text * 7)
        layers = [cache.layers for cache in caches]
        for tokens in ([10, 20, 30], [11, 21, 31]):
            parts = [
                forward(runner.model, tokens[at : at + size], layers[at : at + size])
                for at in range(0, 3, size)
            ]
        rows.append(np.array(mx.concatenate(parts)))
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["gemma3", "lfm2", "falcon-h1"])
def test_texts_are_the_same_in_company(name: str) -> None:
    prompts = ["the quick", "a", "some longer text that is past the end of the window"]
    warm = [sampling(seed=n, temperature=0.9) for n in range(3)]
    asked = [
        task(text, n_predict=20, sampling=how) for text, how in zip(prompts, warm, strict=True)
    ]
    alone = [tokens_of(made_server(name, n_parallel=1).answer(one)) for one in asked]
    server = made_server(name, n_parallel=3)
    ids = [server.submit(one) for one in asked]
    server.run()
    assert [tokens_of(server.events[id]) for id in ids] == alone
