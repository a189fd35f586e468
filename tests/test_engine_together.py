"""Several answers to one prompt: it is evaluated once, and all start and end well."""

from typing import Any

import pytest

from engine.events import Begin, Failed, Final, Progress
from engine.task import CompletionTask
from tests.stepped import Server, tokens_of
from tests.tiny_llama import greedy, model_here, sampling, task

PROMPT = "a prompt of more than one chunk of sixteen tokens"


def seeded(seed: int, **changes: Any) -> CompletionTask:
    warm = sampling(seed=seed, temperature=1.5, samplers=("temperature",))
    return task(PROMPT, sampling=warm, **{"n_predict": 20, **changes})


def test_each_says_what_it_would_say_alone() -> None:
    alone = [tokens_of(Server().answer(seeded(seed))) for seed in (1, 2)]
    server = Server()
    ids = server.submit_together(seeded(1), seeded(2))
    server.run()
    assert [tokens_of(server.events[id]) for id in ids] == alone
    assert alone[0] != alone[1]


def test_the_prompt_is_evaluated_once_and_counted_for_each() -> None:
    server = Server()
    ids = server.submit_together(task(PROMPT), task(PROMPT))
    server.run()
    finals = [server.events[id][-1] for id in ids]
    figures = [
        (f.timings.cache_n, f.timings.prompt_n, f.n_decoded, f.n_tokens_cached, f.id_slot)
        for f in finals
        if isinstance(f, Final)
    ]
    assert figures == [(0, 49, 8, 56, 1), (0, 49, 8, 56, 0)]
    assert server.scheduler.metrics(reset_recent=False).prompt.count == 49


def test_the_parents_slot_keeps_the_prompt_and_the_others_nothing() -> None:
    server = Server()
    server.submit_together(task(PROMPT), task(PROMPT))
    server.run()
    assert [slot.n_prompt_tokens for slot in server.scheduler.slots()] == [0, 56]
    assert server.final(task(PROMPT)).timings.cache_n == 48


def test_only_the_parent_is_told_of_the_beginning() -> None:
    server = Server()
    parent, child = server.submit_together(task(PROMPT), task(PROMPT))
    server.run()
    assert [Begin(49, 0) in server.events[id] for id in (parent, child)] == [True, False]


def test_children_are_told_of_the_prompts_end() -> None:
    asked = task("the quick", return_progress=True, n_predict=1)
    server = Server()
    parent, child = server.submit_together(asked, asked)
    server.run()
    reports = [[e for e in server.events[id] if isinstance(e, Progress)] for id in (parent, child)]
    assert [[p.processed for p in report] for report in reports] == [[0, 9], [9]]


def test_they_wait_until_all_find_slots_and_nobody_overtakes_them() -> None:
    server = Server()
    first = server.submit(task(n_predict=6))
    server.scheduler.step()
    parent, child = server.submit_together(task(), task())
    last = server.submit(task())
    server.scheduler.step()
    assert server.busy() == [None, first]
    while first in server.busy():
        server.scheduler.step()
    server.scheduler.step()
    assert sorted(id for id in server.busy() if id is not None) == [parent, child]
    server.run()
    assert all(isinstance(server.events[id][-1], Final) for id in (parent, child, last))


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ("x" * 512, "exceed_context_size"),
        ([259], "invalid_request"),
    ],
)
def test_a_prompt_that_fails_fails_all(wrong: Any, failed: str) -> None:
    server = Server()
    ids = server.submit_together(task(wrong), task(wrong))
    server.run()
    ends = [server.events[id][-1] for id in ids]
    assert [e.kind for e in ends if isinstance(e, Failed)] == [failed, failed]
    assert server.busy() == [None, None]


def test_more_than_there_are_slots_are_refused_at_once() -> None:
    server = Server()
    ids = server.submit_together(task(), task(), task())
    refused = Failed("invalid_request", "3 completions need as many slots")
    assert [server.events[id] for id in ids] == [[refused]] * 3
    assert server.scheduler.idle


def test_an_empty_prompt_is_answered_for_all() -> None:
    server = Server()
    ids = server.submit_together(task(""), task(""))
    server.run()
    assert [type(server.events[id][-1]) for id in ids] == [Final, Final]


def test_a_model_that_raises_while_reading_the_prompt_fails_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raising(self: Any, *args: Any, **more: Any) -> Any:
        raise RuntimeError("broken")

    server = Server()
    ids = server.submit_together(task(PROMPT), task(PROMPT))
    server.scheduler.step()
    with monkeypatch.context() as patch:
        patch.setattr(type(model_here().model.layers[1].mlp), "__call__", raising)
        server.run()
    assert [server.events[id][-1] for id in ids] == [Failed("server", "got exception: broken")] * 2
    assert tokens_of(server.answer(task())) == greedy(list(b"the quick"), 8)


def test_cancelling_the_parent_while_it_reads_ends_all() -> None:
    server = Server()
    parent, _ = server.submit_together(task(PROMPT), task(PROMPT))
    server.scheduler.step()
    server.scheduler.cancel(parent)
    assert (server.busy(), server.scheduler.idle) == ([None, None], True)


@pytest.mark.parametrize("cancelled", [0, 1])
def test_afterwards_each_is_cancelled_alone(cancelled: int) -> None:
    server = Server()
    ids = server.submit_together(task(n_predict=20), task(n_predict=20))
    server.scheduler.step()
    server.scheduler.step()
    server.scheduler.cancel(ids[cancelled])
    server.run()
    assert tokens_of(server.events[ids[1 - cancelled]]) == greedy(list(b"the quick"), 20)


def test_cancelling_while_they_wait_takes_only_that_one_away() -> None:
    server = Server(n_parallel=2)
    server.submit(task(n_predict=3))
    server.scheduler.step()
    parent, child = server.submit_together(task(), task())
    server.scheduler.cancel(child)
    server.run()
    assert isinstance(server.events[parent][-1], Final)
    assert server.events[child] == []
