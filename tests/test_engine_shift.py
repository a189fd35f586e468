"""Keys that move to other positions: a full context that goes on, and pieces used again."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.caches.rotation import KeyRotation, key_rotation
from engine.caches.sequence import SequenceCache
from engine.events import Failed, Final
from tests.stepped import Server, tokens_of
from tests.tiny_llama import load, model_here, task


def rotation() -> KeyRotation:
    model = model_here().model
    found = key_rotation(model, make_prompt_cache(model))
    assert found is not None
    return found


def cache_of(tokens: list[int]) -> SequenceCache:
    model = model_here().model
    cache = SequenceCache(lambda: make_prompt_cache(model))
    model(mx.array([tokens]), cache=cache.layers)
    cache.evaluated(tokens)
    return cache


def first_keys(cache: SequenceCache) -> np.ndarray:
    """The first layer's keys, which know nothing but token and position."""
    return np.array(cache.layers[0].keys[..., : len(cache.tokens), :])


def test_what_moves_has_the_keys_of_its_new_place() -> None:
    cache = cache_of([1, 2, 3, 4, 5, 6, 7, 8])
    cache.drop(2, 5, rotation())
    assert cache.tokens == [1, 2, 6, 7, 8]
    np.testing.assert_allclose(first_keys(cache), first_keys(cache_of(cache.tokens)), atol=1e-5)
    assert [layer.offset for layer in cache.layers] == [5, 5]


def test_pieces_long_enough_are_moved_in_their_order() -> None:
    cache = cache_of([1, 2, 3, 4, 5, 6, 7, 8, 9])
    wanted = [1, 2, 5, 6, 9, 9]
    assert cache.reuse_chunks(wanted, 2, 2, rotation()) == 4
    assert cache.tokens == [1, 2, 5, 6]
    np.testing.assert_allclose(first_keys(cache), first_keys(cache_of(cache.tokens)), atol=1e-5)
    assert cache_of([1, 2, 3]).reuse_chunks([1, 5, 6], 1, 2, rotation()) == 1


def test_a_context_with_a_window_is_not_moved() -> None:
    model = load(window=16).model
    assert key_rotation(model, make_prompt_cache(model)) is None
    final = Server(load(window=16), ctx_shift=True).final(task("x" * 500, n_predict=-1))
    assert (final.truncated, final.stop_type) == (True, "limit")


def test_a_model_whose_keys_move_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load().model
    attention = type(model.layers[0].self_attn)
    plain = attention.__call__

    def positions_in_the_stream(self: object, x: mx.array, mask: object, cache: object) -> mx.array:
        return plain(self, x * (1 + cache.offset), mask, cache)  # type: ignore[attr-defined]

    with monkeypatch.context() as patch:
        patch.setattr(attention, "__call__", positions_in_the_stream)
        assert key_rotation(model, make_prompt_cache(model)) is None


def test_a_full_context_goes_on() -> None:
    server = Server(ctx_shift=True)
    final = server.final(task("x" * 500, n_predict=40))
    assert (final.truncated, final.stop_type, final.n_decoded) == (True, "limit", 40)
    # 511 tokens lost half of them when the 512th came.
    assert final.n_tokens_cached == 511 - 255 + (40 - 12)


def test_the_beginning_is_kept_as_asked() -> None:
    server = Server(ctx_shift=True)
    events = server.answer(task("x" * 300 + "y" * 200, n_predict=20, n_keep=300, n_discard=50))
    [slot] = [s for s in server.scheduler.slots() if s.n_prompt_tokens]
    assert slot.n_prompt_tokens == 511 - 50 + (20 - 12)
    cached = server.final(task("x" * 300 + "y" * 150, n_predict=1)).timings.cache_n
    assert cached == 449
    assert isinstance(events[-1], Final)


def test_a_shared_prompt_is_not_shifted() -> None:
    server = Server(ctx_shift=True)
    ids = server.submit_together(task("x" * 500, n_predict=-1), task("x" * 500, n_predict=-1))
    server.run()
    failed = Failed("server", "context shift cannot be used for shared prompt")
    assert [server.events[id][-1] for id in ids] == [failed, failed]


def test_moved_pieces_count_as_cached() -> None:
    server = Server(n_parallel=1)
    server.answer(task("the first words and then the last words", n_predict=1))
    final = server.final(task("and then the last words", n_cache_reuse=4))
    assert (final.timings.cache_n, final.timings.prompt_n) == (22, 1)
    assert server.final(task("then the last", n_cache_reuse=0)).timings.cache_n == 0


def test_shifting_changes_nothing_before_the_context_is_full() -> None:
    plain, shifting = Server(), Server(ctx_shift=True)
    asked = task("x" * 480, n_predict=31)
    assert tokens_of(plain.answer(asked)) == tokens_of(shifting.answer(asked))


class Scaling(nn.Module):
    """A rotary embedding that also scales, as those for long contexts do."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.plain = plain

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        return self.plain(1.19 * x, offset=offset)


def test_what_the_embedding_scales_is_scaled_once() -> None:
    model = load().model
    for layer in model.layers:
        layer.self_attn.rope = Scaling(layer.self_attn.rope)
    found = key_rotation(model, make_prompt_cache(model))
    assert found is not None
    caches = []
    for tokens in ([1, 2, 3, 4, 5, 6], [1, 5, 6]):
        caches.append(SequenceCache(lambda: make_prompt_cache(model)))
        model(mx.array([tokens]), cache=caches[-1].layers)
        caches[-1].evaluated(tokens)
    caches[0].drop(1, 4, found)
    np.testing.assert_allclose(first_keys(caches[0]), first_keys(caches[1]), atol=1e-5)
