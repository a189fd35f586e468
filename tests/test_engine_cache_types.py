"""KV caches of every type: close to the plain one, and all that is done with a cache works."""

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ChunkedKVCache, KVCache, make_prompt_cache

from engine.caches.packed_attention import attention
from engine.caches.prompt_cache import PromptCache
from engine.caches.rotation import key_rotation
from engine.caches.sequence import SequenceCache, token_array
from engine.caches.typed_layer import TypedLayer
from engine.caches.typed_model import cache_sizes, use_cache_types
from engine.caches.types import cache_type
from engine.errors import ModelError
from engine.running.batching import largest_exact_batch
from engine.slots.files import InvalidSlotFile
from engine.task import CompletionTask
from tests.stepped import Server, tokens_of
from tests.test_engine_slot_files import forged
from tests.tiny_llama import TinyModel, load, sampling, task

QUANTISED = ["q8_0", "q5_0", "q5_1", "q4_0", "q4_1"]
TYPES = ["f32", "f16", "bf16", *QUANTISED, "q8_0/f16", "f16/q4_0", "/q8_0"]
TEXT = [(7 * n) % 90 + 33 for n in range(60)]


@cache
def model_with(types: str = "", window: int | None = None) -> TinyModel:
    """The tiny model with heads of 32; `types` are of keys and values, where they differ."""
    model = load(window=window, hidden_size=128)
    keys, _, values = types.partition("/")
    use_cache_types(model.model, keys, values if "/" in types else keys)
    return model


def cache_of(tokens: list[int], types: str, window: int | None = None) -> SequenceCache:
    model = model_with(types, window).model
    held = SequenceCache(lambda: make_prompt_cache(model))
    model(token_array(tokens), cache=held.layers)
    held.evaluated(tokens)
    mx.eval(held.states())
    return held


def logprobs(
    held: SequenceCache, tokens: list[int], types: str, window: int | None = None
) -> np.ndarray:
    """After each of `tokens`, one at a time: float32 [tokens, V]."""
    model, rows = model_with(types, window).model, []
    for token in tokens:
        logits = model(token_array([token]), cache=held.layers)[0, -1]
        rows.append(np.array(logits - mx.logsumexp(logits)))
    held.evaluated(tokens)
    return np.stack(rows)


def first_keys(held: SequenceCache) -> np.ndarray:
    """The first layer's keys, unpacked: they know nothing but token and position."""
    return np.array(held.layers[0].keys_and_values()[0].astype(mx.float32))


# Largest differences of a likely token's log-probability.
CLOSE = {"f32": 0, "f16": 0.01, "bf16": 0.1, "q8_0": 0.1, "q8_0/f16": 0.1, "/q8_0": 0.1}


@pytest.mark.parametrize("window", [None, 16])
@pytest.mark.parametrize("types", TYPES)
def test_answers_are_close_to_those_of_a_plain_cache(types: str, window: int | None) -> None:
    plain = logprobs(cache_of(TEXT[:30], "", window), TEXT[30:], "", window)
    typed = logprobs(cache_of(TEXT[:30], types, window), TEXT[30:], types, window)
    likely = plain > np.log(0.1)
    assert np.abs(typed - plain)[likely].max() <= CLOSE.get(types, 0.6)
    assert types == "f32" or not np.array_equal(typed, plain)


@pytest.mark.parametrize("types", TYPES)
def test_what_is_taken_back_and_added_again_is_the_same(types: str) -> None:
    held = cache_of(TEXT[:30], types)
    once = logprobs(held, TEXT[30:50], types)
    assert held.keep_first(40) == 40
    assert np.array_equal(logprobs(held, TEXT[40:50], types), once[10:])


@pytest.mark.parametrize("types", TYPES)
def test_a_copy_goes_its_own_way(types: str) -> None:
    held = cache_of(TEXT[:30], types)
    twin = held.copy()
    wanted = logprobs(held, TEXT[30:40], types)
    logprobs(twin, TEXT[20:30], types)
    held.keep_first(30)
    assert np.array_equal(logprobs(held, TEXT[30:40], types), wanted)


@pytest.mark.parametrize("types", TYPES)
def test_moved_keys_are_those_of_their_new_places(types: str) -> None:
    rotation = key_rotation(model_with(types).model, make_prompt_cache(model_with(types).model))
    assert rotation is not None
    held = cache_of(TEXT[:30], types)
    before = [np.array(a[..., :10, :].view(mx.uint8)) for a in held_arrays(held)]
    held.drop(10, 15, rotation)
    fresh = cache_of(TEXT[:10] + TEXT[15:30], types)
    step = np.ptp(first_keys(fresh)) / (8 if "q4" in types or "q5" in types else 64)
    assert np.abs(first_keys(held) - first_keys(fresh)).max() <= step
    after = [np.array(a[..., :10, :].view(mx.uint8)) for a in held_arrays(held)]
    assert all(map(np.array_equal, before, after))
    assert [layer.offset for layer in held.layers] == [25, 25]


def held_arrays(held: SequenceCache) -> list[mx.array]:
    """All that the first layer holds, as it is held."""
    [keys, values] = held.layers[0].held
    return [*keys, *values]


@pytest.mark.parametrize("types", ["f16", "q8_0", "f16/q4_0"])
def test_a_slot_goes_on_over_a_full_context_and_uses_pieces_again(types: str) -> None:
    server = Server(model_with(types), n_parallel=1, ctx_shift=True)
    final = server.final(task("x" * 500, n_predict=40))
    assert (final.truncated, final.n_tokens_cached) == (True, 511 - 255 + (40 - 12))
    server.answer(task("the first words and then the last words", n_predict=1))
    assert server.final(task("and then the last words", n_cache_reuse=4)).timings.cache_n == 22


# Alone and in company.


def seeded(prompt: str, seed: int) -> CompletionTask:
    warm = sampling(seed=seed, temperature=1.2, samplers=("temperature",))
    return task(prompt, sampling=warm, n_predict=6)


@settings(max_examples=8, deadline=None)
@given(
    types=st.sampled_from(TYPES),
    prompts=st.lists(st.text("abc xyz", min_size=1, max_size=30), min_size=2, max_size=3),
)
def test_each_says_in_company_what_it_says_alone(types: str, prompts: list[str]) -> None:
    model = model_with(types)
    asked = [seeded(prompt, seed) for seed, prompt in enumerate(prompts)]
    alone = [tokens_of(Server(model).answer(one)) for one in asked]
    server = Server(model, n_parallel=3)
    ids = [server.submit(one) for one in asked]
    server.run()
    assert [tokens_of(server.events[id]) for id in ids] == alone


@pytest.mark.parametrize("types", TYPES)
def test_several_tokens_of_one_slot_come_out_as_alone(types: str) -> None:
    largest = []
    for model in (model_with("").model, model_with(types).model):
        largest.append(largest_exact_batch(model, [make_prompt_cache(model) for _ in range(2)], 8))
    # More than one of a slot's tokens are in it if it is more than the slots.
    assert largest[1] == largest[0] > 2


@pytest.mark.parametrize("types", ["f16", "q8_0", "q4_0/f16"])
def test_answers_that_share_a_prompt_are_those_of_each_alone(types: str) -> None:
    model, asked = model_with(types), [seeded("the same prompt", seed) for seed in (1, 2)]
    alone = [tokens_of(Server(model).answer(one)) for one in asked]
    server = Server(model)
    ids = server.submit_together(*asked)
    server.run()
    assert [tokens_of(server.events[id]) for id in ids] == alone


# Files and memory.


@pytest.mark.parametrize("types", TYPES)
def test_a_window_takes_back_what_it_holds_beside(types: str) -> None:
    server = Server(model_with(types, 16), n_parallel=1)
    server.answer(task("a" * 60 + "b" * 60, n_predict=1))
    final = server.final(task("a" * 60 + "b" * 55 + "c" * 5, n_predict=1))
    assert (final.timings.cache_n, final.timings.prompt_n) == (115, 5)


@pytest.mark.parametrize("window", [None, 16])
@pytest.mark.parametrize("types", TYPES)
def test_a_restored_slot_goes_on_as_the_saved_one(
    types: str, window: int | None, tmp_path: Path
) -> None:
    prompt = "a prompt that is to be restored"
    server = Server(model_with(types, window), n_parallel=1)
    server.answer(task(prompt, n_predict=1))
    slots = list(server.scheduler._slots)
    saved = server.scheduler.save_slot(slots[0], tmp_path / "slot")
    more = task(prompt + " and more of it", n_predict=6)
    other = Server(model_with(types, window), n_parallel=1)
    [slot] = other.scheduler._slots
    assert other.scheduler.restore_slot(slot, tmp_path / "slot") == saved
    final = other.final(more)
    assert final.timings.cache_n == 31
    assert tokens_of(other.events[0]) == tokens_of(server.answer(more))


@pytest.mark.parametrize(("types", "others"), [("f16", "f32"), ("q4_0", "q4_1"), ("/q8_0", "q8_0")])
def test_a_file_with_other_types_is_refused(types: str, others: str, tmp_path: Path) -> None:
    for saved, restored in ((types, others), (others, types)):
        server = Server(model_with(saved), n_parallel=1)
        server.answer(task())
        server.scheduler.save_slot(next(iter(server.scheduler._slots)), tmp_path / "slot")
        other = Server(model_with(restored), n_parallel=1)
        with pytest.raises(InvalidSlotFile):
            other.scheduler.restore_slot(next(iter(other.scheduler._slots)), tmp_path / "slot")


def out_of_step(description: Any, tensors: list[mx.array]) -> None:
    """The second layer's second part begins a token later."""
    second_part = 1 + 3 * 2 + 2
    description["states"][0][3 * 3 + 4 + 3] += 1
    for n in (second_part, second_part + 1):
        tensors[n] = tensors[n][..., 1:, :]


def test_a_file_whose_parts_are_out_of_step_is_refused(tmp_path: Path) -> None:
    server = Server(model_with("q8_0", 16), n_parallel=1)
    [slot] = server.scheduler._slots
    server.answer(task("x" * 40))
    server.scheduler.save_slot(slot, tmp_path / "slot")
    forged(tmp_path / "slot", lambda description, tensors: None)
    assert server.scheduler.restore_slot(slot, tmp_path / "slot").n_tokens == 47
    forged(tmp_path / "slot", out_of_step)
    with pytest.raises(InvalidSlotFile):
        server.scheduler.restore_slot(slot, tmp_path / "slot")


def test_what_the_model_computes_with_is_a_type_like_others(tmp_path: Path) -> None:
    server = Server(model_with(""), n_parallel=1)
    server.answer(task())
    saved = server.scheduler.save_slot(next(iter(server.scheduler._slots)), tmp_path / "slot")
    other = Server(model_with("f32"), n_parallel=1)
    [slot] = other.scheduler._slots
    assert other.scheduler.restore_slot(slot, tmp_path / "slot") == saved


# Two layers, two heads of 32, and 256 tokens at least.
PLACES = 2 * 2 * 32 * 256
BITS = {
    "": 32,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "q8_0": 9,
    "q5_0": 6,
    "q5_1": 6,
    "q4_0": 5,
    "q4_1": 5,
}


@pytest.mark.parametrize("types", TYPES)
def test_the_bytes_of_a_prompt_are_those_of_its_types(types: str) -> None:
    keys, _, values = types.partition("/")
    bits = BITS[keys] + BITS[values if "/" in types else keys]
    kept = PromptCache(-1, 0)
    kept.save(cache_of(TEXT, types))
    assert kept.nbytes == PLACES * bits // 8


@pytest.mark.parametrize("types", ["f16", "q8_0", "q4_0/f16"])
def test_a_token_is_added_without_a_copy_of_the_rest(types: str) -> None:
    first, _, second = types.partition("/")
    keys, values = cache_type(first), cache_type(second or first)
    layer = TypedLayer([KVCache() for _ in range(TypedLayer.n_parts(keys, values))], keys, values)
    layer.update_and_fetch(*[mx.ones((1, 4, 8000, 64))] * 2)
    mx.eval(layer.state)
    token = mx.ones((1, 4, 1, 64))
    for _ in range(3):
        mx.eval(token)
        held = mx.get_active_memory()
        mx.reset_peak_memory()
        fetched = layer.update_and_fetch(token, token)
        mx.eval(layer.state)
        assert mx.get_peak_memory() - held < 10_000 < layer.nbytes
        mx.eval(attention(token, *fetched, layer, scale=1.0, mask=None))
        del fetched


@pytest.mark.parametrize(("keys", "values"), [("q8_0", "q5_1"), ("q4_0", "f16"), ("f32", "q4_1")])
def test_attention_over_what_is_packed_is_that_over_what_it_means(keys: str, values: str) -> None:
    types = cache_type(keys), cache_type(values)
    layer = TypedLayer([KVCache() for _ in range(TypedLayer.n_parts(*types))], *types)
    rng = np.random.default_rng(3)
    numbers = [mx.array(rng.standard_normal((1, 2, n, 32), np.float32)) for n in (40, 40, 1, 1)]
    layer.update_and_fetch(*numbers[:2])
    fetched = layer.update_and_fetch(*numbers[2:])
    queries = mx.array(rng.standard_normal((1, 6, 1, 32), np.float32))
    wanted = mx.fast.scaled_dot_product_attention(queries, *fetched, scale=0.2, mask=None)
    packed = attention(queries, *fetched, layer, scale=0.2, mask=None)
    assert layer.packed(*fetched) is None
    np.testing.assert_allclose(np.array(packed), np.array(wanted), atol=1e-5)
    assert not np.array_equal(np.array(packed), np.array(wanted))


# What is said, and what is refused.


@pytest.mark.parametrize(
    ("types", "window", "says"),
    [
        ("", None, "1.00 MiB (1024 cells, 2 layers), K (f32): 0.50 MiB, V (f32): 0.50 MiB"),
        (
            "f16/q8_0",
            None,
            "0.39 MiB (1024 cells, 2 layers), K (f16): 0.25 MiB, V (q8_0): 0.14 MiB",
        ),
        ("f16", 16, "0.31 MiB (1024 cells, 2 layers), K (f16): 0.16 MiB, V (f16): 0.16 MiB"),
    ],
)
def test_the_size_of_the_cache_is_told(types: str, window: int | None, says: str) -> None:
    model = model_with(types, window)
    # A server has layers with a window hold some more.
    Server(model)
    assert str(cache_sizes(model.model, 1024)) == f"KV cache of a full slot: {says}"


@pytest.mark.parametrize(
    ("keys", "values", "says"),
    [
        ("q8_0", "", "-ctk q8_0: 32 doesn't divide this model's heads of 16: use f16"),
        ("f16", "q4_0", "-ctk f16 -ctv q4_0: 32 doesn't divide this model's heads of 16: use f16"),
        ("", "iq4_nl", "MLX has no form of iq4_nl for a KV cache: use q4_0 or q4_1"),
    ],
)
def test_what_a_model_cannot_have_is_refused(keys: str, values: str, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        use_cache_types(load().model, keys, values)
    assert str(caught.value) == says


def test_a_model_with_caches_of_its_own_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load().model
    monkeypatch.setattr(type(model), "make_cache", lambda self: [ChunkedKVCache(8)] * 2)
    with pytest.raises(ModelError) as caught:
        use_cache_types(model, "f16", "f16")
    says = "-ctk f16 -ctv f16: this model's cache has no other types: leave that out"
    assert str(caught.value) == says
