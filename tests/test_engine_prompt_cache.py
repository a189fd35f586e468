"""Prompts that outlive their slot's next task, and caches that can only go back to checkpoints."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.caches.prompt_cache import PromptCache
from engine.caches.sequence import SequenceCache
from tests.stepped import Server, tokens_of
from tests.tiny_llama import TinyModel, load, model_here, task


def cache_of(text: str) -> SequenceCache:
    model, tokens = model_here().model, list(text.encode())
    cache = SequenceCache(lambda: make_prompt_cache(model))
    if tokens:
        model(mx.array([tokens]), cache=cache.layers)
        mx.eval(cache.states())
        cache.evaluated(tokens)
    return cache


def kept(prompts: PromptCache) -> list[str]:
    return [bytes(cache.tokens).decode() for cache in prompts._kept]


def taken(prompts: PromptCache, slot: str, wanted: str) -> str | None:
    found = prompts.take(cache_of(slot), list(wanted.encode()))
    return None if found is None else bytes(found.tokens).decode()


def test_the_longest_of_a_kind_is_kept() -> None:
    prompts = PromptCache(-1, 1000)
    for text in ("ab", "abc", "x", "", "ab", "xyz"):
        prompts.save(cache_of(text))
    assert kept(prompts) == ["abc", "xyz"]


def test_what_is_taken_serves_better_and_is_gone() -> None:
    prompts = PromptCache(-1, 1000)
    for text in ("abcdefgh", "xyz"):
        prompts.save(cache_of(text))
    assert taken(prompts, "", "a") is None, "it would use less than a quarter"
    assert taken(prompts, "abcd", "abcdef") is None, "the slot keeps all it has"
    assert taken(prompts, "abzz", "abcdef") == "abcdefgh"
    assert kept(prompts) == ["xyz"]


def test_the_oldest_go_when_bytes_or_tokens_are_too_many() -> None:
    texts = ["aaaa", "bbbb", "cccc"]
    by_tokens = PromptCache(-1, 9)
    for text in texts:
        by_tokens.save(cache_of(text))
        by_tokens.shrink()
    assert kept(by_tokens) == ["bbbb", "cccc"]
    # Each takes 128 KiB: memory comes in steps of 256 tokens.
    by_bytes, letters = PromptCache(1, 1000), "abcdefghi"
    for text in letters:
        by_bytes.save(cache_of(text))
        by_bytes.shrink()
    assert kept(by_bytes) == list(letters[1:])
    assert by_bytes.nbytes == 1 << 20


def test_what_is_too_large_is_not_kept() -> None:
    prompts = PromptCache(1, 1000)
    prompts.save(cache_of("small"))
    prompts.save(cache_of("x" * 2100))
    assert kept(prompts) == ["small"]


def test_a_kept_prompt_stays_as_it_was() -> None:
    prompts, cache = PromptCache(-1, 1000), cache_of("the quick")
    prompts.save(cache)
    model_here().model(mx.array([[1, 2, 3]]), cache=cache.layers)
    cache.evaluated([1, 2, 3])
    found = prompts.take(cache_of(""), list(b"the quick"))
    assert found is not None
    assert [layer.offset for layer in found.layers] == [9, 9]
    again = cache_of("the quick")
    for one, other in zip(found.layers, again.layers, strict=True):
        assert mx.array_equal(one.keys[..., :9, :], other.keys[..., :9, :])


def cached(server: Server, prompt: str) -> int:
    return server.final(task(prompt, n_predict=4)).timings.cache_n


@pytest.mark.parametrize(("mib", "found"), [(0, 0), (64, 15)])
def test_a_prompt_comes_back_to_a_slot_that_served_another(mib: int, found: int) -> None:
    server = Server(n_parallel=1, cache_ram_mib=mib)
    assert cached(server, "the first prompt") == 0
    assert cached(server, "another one") == 0
    assert cached(server, "the first prompt") == found


def test_idle_slots_that_share_the_context_are_emptied() -> None:
    def held(**changes: object) -> list[int]:
        server = Server(cache_ram_mib=64, **changes)
        cached(server, "the first prompt")
        cached(server, "another one")
        return [slot.n_prompt_tokens for slot in server.scheduler.slots()]

    assert held(kv_unified=True) == [14, 0]
    assert held(kv_unified=False) == [14, 19]
    assert held(kv_unified=True, cache_idle_slots=False) == [14, 19]


WINDOW = 16
LONG = "a prompt that is longer than the window of its second layer"
# Longer than the 256 tokens that are held of a window of this size.
VERY_LONG = " and ".join([LONG] * 6)


def window() -> TinyModel:
    return load(window=WINDOW)


@pytest.mark.parametrize(
    ("prompt", "n_cached"),
    [
        (LONG, 58),
        (LONG + " by far", 59),
        (LONG[:57] + "!!", 57),
        (LONG[:30], 29),
        # Nearer to the beginning than a window llama-server wants a checkpoint, and has none.
        (LONG[:15] + "!!", 0),
    ],
)
def test_a_window_reaches_further_back_than_it_shows(prompt: str, n_cached: int) -> None:
    check_reuse(LONG, prompt, n_cached)


@pytest.mark.parametrize(
    ("prompt", "n_cached"),
    [
        (VERY_LONG[:370] + "!!", 370),
        (VERY_LONG[:180] + "!!", 180),
        # The checkpoint of 64 tokens, but for its last one.
        (VERY_LONG[:100] + "!!", 63),
        (VERY_LONG[:60], 0),
    ],
)
def test_a_window_that_has_moved_on_goes_back_to_a_checkpoint(prompt: str, n_cached: int) -> None:
    starts = tuple(range(64, 384, 64))
    check_reuse(VERY_LONG, prompt, n_cached, user_starts=starts, checkpoint_min_step=0)


def check_reuse(first: str, then: str, n_cached: int, **changes: Any) -> None:
    """The second answer is the same as without the first one, and so many tokens were there."""
    starts = changes.pop("user_starts", ())
    asked = task(then, n_predict=20)
    expected = tokens_of(Server(window(), **changes).answer(asked))
    server = Server(window(), n_parallel=1, **changes)
    server.answer(task(first, n_predict=20, user_starts=starts))
    events = server.answer(asked)
    assert tokens_of(events) == expected
    assert events[-1].timings.cache_n == n_cached  # type: ignore[union-attr]


def test_without_checkpoints_a_window_serves_as_far_as_it_reaches() -> None:
    server = Server(window(), n_parallel=1, n_ctx_checkpoints=0)
    prompts = [VERY_LONG, VERY_LONG, VERY_LONG[:100]]
    assert [cached(server, prompt) for prompt in prompts] == [0, 378, 0]


def test_checkpoints_make_room_for_newer_ones() -> None:
    cache = SequenceCache(lambda: make_prompt_cache(window().model))
    for n_tokens, id_task in ((10, 1), (20, 1), (30, 2), (40, 2), (50, 3)):
        cache.evaluated([0] * (n_tokens - len(cache.tokens)))
        cache.add_checkpoint(id_task, 3, 15)
    assert [c.n_tokens for c in cache.checkpoints] == [10, 30, 50]
