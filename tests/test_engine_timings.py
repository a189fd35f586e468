"""The figures of a reply's timings follow llama-server's rules."""

import pytest

from engine import timings
from engine.timings import Clock, Timings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Taken up at 1000 us; 6 prompt tokens after 8 ms; tokens at 10, 10, 12 and 15 ms."""
    times = iter([1000, 9000, 11000, 11000, 13000, 16000])
    monkeypatch.setattr(timings, "now_us", lambda: next(times))
    clock = Clock(n_prompt_cached=2)
    clock.start()
    clock.prompt_evaluated(6)
    return clock


def test_before_the_first_token(clock: Clock) -> None:
    assert clock.timings() == Timings(2, 6, 8.0, 8 / 6, 750.0, 0, 0.0, 0.0, 0.0)


def test_the_first_token_took_no_step_of_its_own(clock: Clock) -> None:
    clock.token_sampled()
    assert clock.timings() == Timings(2, 6, 10.0, 10 / 6, 600.0, 1, 0.001, 0.0, 0.0)


def test_rates_count_steps_after_the_first_token(clock: Clock) -> None:
    for _ in range(4):
        clock.token_sampled()
    assert clock.timings() == Timings(2, 6, 10.0, 10 / 6, 600.0, 4, 5.0, 5 / 3, 600.0)


def test_drafts_are_told_only_when_there_were_any(clock: Clock) -> None:
    clock.n_draft, clock.n_draft_accepted = 4, 3
    assert (clock.timings().draft_n, clock.timings().draft_n_accepted) == (4, 3)
