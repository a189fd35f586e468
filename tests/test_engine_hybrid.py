"""Slots of models with windows and states: whatever is reused, the text is the same."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.events import Final
from engine.task import CompletionTask
from tests.made_server import made_server
from tests.stepped import Server, tokens_of
from tests.tiny_llama import sampling, task

WINDOWED = ["gemma3", "gpt-oss", "cohere2"]
HYBRID = ["lfm2", "qwen35", "granitehybrid", "falcon-h1", "nemotron_h"]
ALL = WINDOWED + HYBRID
TEXT = "a prompt of some length, that many a task begins with, but few have to the end"


def asked(prompt: str, **changes: Any) -> CompletionTask:
    warm = sampling(seed=3, temperature=0.7, samplers=("temperature",))
    return task(prompt, **{"n_predict": 12, "sampling": warm, **changes})


def answer(server: Server, prompt: str, **changes: Any) -> tuple[list[int], int]:
    """What a task says, and how much of its prompt was there already."""
    events = server.answer(asked(prompt, **changes))
    last = events[-1]
    assert isinstance(last, Final)
    return tokens_of(events), last.timings.cache_n


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(cuts=st.lists(st.tuples(st.integers(0, len(TEXT)), st.text("abc", max_size=6)), max_size=4))
def test_what_is_reused_changes_nothing(name: str, cuts: list[tuple[int, str]]) -> None:
    server = made_server(name, n_parallel=1, n_batch=32, checkpoint_min_step=0)
    for cut, end in [(len(TEXT), ""), *cuts, (len(TEXT), "!")]:
        prompt = TEXT[:cut] + end or "a"
        fresh, _ = answer(made_server(name, n_parallel=1), prompt)
        again, n_cached = answer(server, prompt)
        assert again == fresh, (prompt, n_cached)


@pytest.mark.parametrize("name", HYBRID)
def test_a_repeated_prompt_starts_from_its_checkpoint(name: str) -> None:
    server = made_server(name, n_parallel=1)
    assert [answer(server, TEXT)[1] for _ in range(2)] == [0, len(TEXT) - 4]


def test_a_state_of_another_first_token_is_never_gone_back_to() -> None:
    """llama-server keeps the one of "a", and goes on from it as if it were that of "b"."""
    server = made_server("lfm2", n_parallel=1)
    answers = [answer(server, prompt) for prompt in ("ab", "a", "b", "b!")]
    assert answers[-1] == (answer(made_server("lfm2"), "b!")[0], 0)


@pytest.mark.parametrize("name", ALL)
def test_a_restored_slot_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    before, after = made_server(name, n_parallel=1), made_server(name, n_parallel=1)
    said, _ = answer(before, TEXT)
    saved = before.scheduler.save_slot(before.scheduler._slots.at(0), tmp_path / "slot")
    restored = after.scheduler.restore_slot(after.scheduler._slots.at(0), tmp_path / "slot")
    assert restored == saved
    longer = TEXT + bytes(said[:-1]).decode("latin-1") if max(said) < 128 else TEXT
    again, n_cached = answer(after, longer + "?")
    assert n_cached > 0
    assert again == answer(made_server(name), longer + "?")[0]


@pytest.mark.parametrize("name", ALL)
def test_a_prompt_comes_back_from_memory(name: str) -> None:
    server = made_server(name, n_parallel=1, cache_ram_mib=64)
    said, _ = answer(server, TEXT)
    answer(server, "something else, of a certain length as well")
    again, n_cached = answer(server, TEXT)
    assert again == said
    assert n_cached >= len(TEXT) - 5


@pytest.mark.parametrize("name", ALL)
def test_copies_of_a_prompt_go_their_own_ways(name: str) -> None:
    def seeded(seed: int) -> CompletionTask:
        return asked(TEXT, sampling=sampling(seed=seed, temperature=1.5))

    server = made_server(name)
    ids = server.submit_together(seeded(1), seeded(2))
    server.run()
    together = [tokens_of(server.events[id]) for id in ids]
    assert together == [tokens_of(made_server(name).answer(seeded(seed))) for seed in (1, 2)]
    assert together[0] != together[1]


@pytest.mark.parametrize("name", ["lfm2", "falcon-h1"])
def test_a_full_context_goes_on_without_its_oldest_tokens(name: str) -> None:
    server = made_server(name, n_parallel=1, n_ctx=256, ctx_shift=True)
    final = server.final(asked(TEXT, n_predict=250))
    assert (final.n_decoded, final.truncated) == (250, True)
    # The checkpoints behind what was dropped are gone: they were of other texts.
    assert answer(server, TEXT) == answer(made_server(name, n_parallel=1), TEXT)


@pytest.mark.parametrize("name", ["gemma3", "qwen35", "qwen2vl", "qwen3vl", "nemotron_h"])
def test_what_can_not_be_shifted_ends_with_the_context(name: str) -> None:
    server = made_server(name, n_parallel=1, n_ctx=256, ctx_shift=True)
    final = server.final(asked(TEXT, n_predict=250))
    assert (len(TEXT) + final.n_decoded, final.stop_type) == (256, "limit")
