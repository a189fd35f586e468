"""Serving step by step: the real scheduler and a real model on the test's own thread."""

from typing import Any

import pytest

from engine.events import Begin, Event, Failed, Final, Progress, Token
from engine.run import Request
from engine.sampling import Sampler, SamplingParams
from engine.settings import context_sizes
from engine.steps import admission
from tests.stepped import Server, text_of, tokens_of
from tests.tiny_llama import (
    EOS,
    OTHER_SPECIAL,
    greedy,
    model_here,
    sampling,
    settings,
    task,
)

PROMPT = "a prompt of more than one chunk of sixteen tokens"


def test_greedy_text_is_that_of_a_plain_loop() -> None:
    events = Server().answer(task(PROMPT, n_predict=20))
    assert tokens_of(events) == greedy(list(PROMPT.encode()), 20)


def test_a_stream_begins_counts_and_ends() -> None:
    events = Server().answer(task("the quick", n_predict=3))
    assert events[0] == Begin(9, 0)
    assert [type(event) for event in events[1:]] == [Token, Token, Token, Final]
    assert [e.n_decoded for e in events if isinstance(e, Token)] == [1, 2, 3]
    final = events[-1]
    assert isinstance(final, Final)
    assert (final.content, final.tokens, final.stop_type) == ("", (), "limit")
    assert (final.n_decoded, final.n_prompt_tokens, final.n_tokens_cached) == (3, 9, 11)


def test_a_plain_answer_is_what_the_stream_adds_up_to() -> None:
    server = Server()
    streamed = server.answer(task(n_predict=20))
    [plain] = server.answer(task(n_predict=20, stream=False))
    assert isinstance(plain, Final)
    assert plain.content == text_of(streamed)
    assert list(plain.tokens) == tokens_of(streamed)


def test_company_changes_nothing() -> None:
    alone = [tokens_of(Server().answer(task(p, n_predict=20))) for p in (PROMPT, "other")]
    server = Server()
    first = server.submit(task(PROMPT, n_predict=20))
    server.scheduler.step()
    second = server.submit(task("other", n_predict=20))
    server.run()
    assert [tokens_of(server.events[id]) for id in (first, second)] == alone


def test_a_running_stream_does_not_wait_for_a_long_prompt() -> None:
    server = Server()
    server.submit(task(n_predict=-1))
    server.scheduler.step()
    server.submit(task("x" * 100))
    before = len(tokens_of(server.events[0]))
    for _ in range(5):
        server.scheduler.step()
    assert len(tokens_of(server.events[0])) == before + 5
    assert tokens_of(server.events[1]) == []


def test_nobody_is_promised_less_than_one_token() -> None:
    assert tokens_of(Server().answer(task(n_predict=0))) == greedy(list(b"the quick"), 1)


def test_the_servers_limit_holds_for_who_sets_none() -> None:
    server = Server(n_predict=3)
    assert server.final(task(n_predict=-1)).n_decoded == 3
    assert server.final(task(n_predict=5)).n_decoded == 5


def test_an_empty_prompt_is_answered_at_once() -> None:
    [final] = Server().answer(task(""))
    assert isinstance(final, Final)
    assert (final.stop_type, final.n_decoded, final.n_prompt_tokens) == ("none", 0, 0)


def test_without_a_limit_the_context_ends_the_text() -> None:
    final = Server().final(task("x" * 500, n_predict=-1))
    assert (final.truncated, final.stop_type, final.n_decoded) == (True, "limit", 12)
    assert final.n_tokens_cached == 511


def test_a_prompt_beyond_the_context_is_refused() -> None:
    message = "request (512 tokens) exceeds the available context size (512 tokens), "
    events = Server().answer(task("x" * 512))
    expected = Failed("exceed_context_size", message + "try increasing it", 512, 512)
    assert events == [expected]


def test_tokens_the_model_has_not_are_refused() -> None:
    refused = [Failed("invalid_request", "Prompt contains invalid tokens")]
    server = Server()
    assert server.answer(task([5, 259])) == refused
    assert server.answer(task([-1])) == refused


def test_sampler_parameters_that_make_no_chain_are_refused() -> None:
    impossible = sampling(samplers=("penalties",), repeat_penalty=0.0)
    message = "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"
    assert Server().answer(task(sampling=impossible)) == [Failed("invalid_request", message)]


def test_a_stop_string_ends_the_text_before_it() -> None:
    text = bytes(greedy(list(b"the quick"), 20)).decode()
    word = text[7:10]
    server = Server()
    events = server.answer(task(n_predict=20, stop=(word,)))
    assert text_of(events) == text[: text.index(word)]
    final = events[-1]
    assert isinstance(final, Final)
    assert (final.stop_type, final.stopping_word) == ("word", word)
    tokens = [event for event in events if isinstance(event, Token)]
    assert [event.timings is not None for event in tokens[-2:]] == [False, True]
    assert server.final(task(n_predict=20, stop=(word,), stream=False)).content == text_of(events)


def test_the_end_of_generation_has_no_text() -> None:
    always_end = sampling(logit_bias=((EOS, 1000.0),))
    events = Server().answer(task(sampling=always_end, stop=("a",)))
    assert [event.text for event in events if isinstance(event, Token)] == [""]
    final = events[-1]
    assert isinstance(final, Final)
    assert (final.stop_type, final.n_decoded) == ("eos", 1)


@pytest.mark.parametrize(
    ("special", "preserved", "text"),
    [(False, (), ""), (True, (), "<tool>"), (False, (OTHER_SPECIAL,), "<tool>")],
)
def test_special_tokens_show_when_wanted(
    special: bool, preserved: tuple[int, ...], text: str
) -> None:
    biased = sampling(logit_bias=((OTHER_SPECIAL, 1000.0),))
    chosen = task(sampling=biased, n_predict=1, preserved_tokens=frozenset(preserved))
    assert text_of(Server(special=special).answer(chosen)) == text


def test_a_new_line_is_told_and_the_time_limit_waits_for_one() -> None:
    lines = sampling(logit_bias=((10, 1000.0),))
    final = Server().final(task(sampling=lines, n_predict=50, t_max_predict_ms=1))
    assert final.has_new_line
    assert final.stop_type == "limit"
    assert 1 < final.n_decoded < 50
    assert Server().final(task(n_predict=5, t_max_predict_ms=1)).n_decoded == 5


def test_a_repeated_prompt_is_evaluated_from_its_last_token_on() -> None:
    server = Server()
    first = server.final(task("8 tokens"))
    again = server.final(task("8 tokens"))
    assert [(t.cache_n, t.prompt_n) for t in (first.timings, again.timings)] == [(0, 8), (7, 1)]
    assert server.final(task("8 tokens", cache_prompt=False)).timings.cache_n == 0


def test_a_cached_beginning_changes_no_token() -> None:
    server = Server()
    server.final(task("the quick brown"))
    events = server.answer(task("the quick red", n_predict=20))
    assert events[0] == Begin(13, 10)
    assert tokens_of(events) == greedy(list(b"the quick red"), 20)


def test_progress_comes_at_the_start_and_after_every_batch() -> None:
    server = Server()
    server.final(task("x" * 50))
    events = server.answer(task("x" * 200, return_progress=True, n_predict=1))
    reports = [event for event in events if isinstance(event, Progress)]
    assert events[:4] == reports
    assert [(p.total, p.cache, p.processed) for p in reports] == [
        (200, 50, 50),
        (200, 50, 114),
        (200, 50, 178),
        (200, 50, 200),
    ]


def test_slots_are_chosen_by_id_by_prefix_and_by_age() -> None:
    server = Server(n_parallel=3)

    def slot_of(prompt: str, id_slot: int = -1) -> int:
        return server.final(task(prompt, id_slot=id_slot)).id_slot

    assert [slot_of("aaaa"), slot_of("bbbb"), slot_of("cccc")] == [2, 1, 0]
    assert slot_of("bbbb and more") == 1
    assert slot_of("dddd") == 2
    assert slot_of("cccc", id_slot=1) == 1
    assert slot_of("eeee", id_slot=4) == 1


def test_who_finds_no_slot_waits_his_turn() -> None:
    server = Server()
    for _ in range(4):
        server.submit(task(n_predict=3))
    server.scheduler.step()
    assert server.busy() == [1, 0]
    assert server.scheduler.metrics(reset_recent=False).n_tasks_deferred == 2
    server.run()
    assert [event[-1].stop_type for event in server.events.values()] == ["limit"] * 4  # type: ignore[union-attr]


def test_cancelling_frees_the_slot_before_the_next_token() -> None:
    server = Server(n_parallel=1)
    running, waiting, next = (server.submit(task(n_predict=-1)) for _ in range(3))
    for _ in range(3):
        server.scheduler.step()
    told = list(server.events[running])
    server.scheduler.cancel(waiting)
    server.scheduler.cancel(running)
    assert server.busy() == [None]
    server.scheduler.step()
    assert server.busy() == [next]
    assert (server.events[running], server.events[waiting]) == (told, [])


def test_a_cancelled_prompt_stays_in_the_cache_as_far_as_it_came() -> None:
    server = Server()
    id = server.submit(task("y" * 100))
    server.scheduler.step()
    server.scheduler.cancel(id)
    assert server.final(task("y" * 100)).timings.cache_n == 16


def test_a_task_whose_sink_raises_is_cancelled() -> None:
    server = Server()

    def gone(event: Event) -> None:
        raise ConnectionError

    server.scheduler.submit(Request(99, task(n_predict=-1), gone))
    assert server.final(task()).n_decoded == 8
    assert server.busy() == [None, None]


def test_a_sampler_that_raises_fails_its_own_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raising(Sampler):
        def sample(self, logits: Any) -> int:
            raise ValueError("unlucky")

    def sampler(params: SamplingParams, *args: Any, **more: Any) -> Sampler:
        return (Raising if params.seed == 13 else Sampler)(params, *args, **more)

    monkeypatch.setattr(admission, "Sampler", sampler)
    server = Server()
    well, ill = server.submit(task()), server.submit(task(sampling=sampling(seed=13)))
    server.run()
    assert server.events[ill] == [Begin(9, 0), Failed("server", "got exception: unlucky")]
    assert tokens_of(server.events[well]) == greedy(list(b"the quick"), 8)


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (RuntimeError("broken"), Failed("server", "got exception: broken")),
        (
            RuntimeError("[malloc] Unable to allocate 99 bytes."),
            Failed("out_of_memory", "[malloc] Unable to allocate 99 bytes."),
        ),
    ],
)
def test_a_model_that_raises_leaves_clean_caches(
    monkeypatch: pytest.MonkeyPatch, error: Exception, failed: Failed
) -> None:
    server = Server(n_parallel=1)
    layer = model_here().model.layers[1]
    id = server.submit(task(n_predict=50))
    for _ in range(3):
        server.scheduler.step()

    def raising(self: Any, *args: Any, **more: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(type(layer.mlp), "__call__", raising)
        server.run()
    assert server.events[id][-1] == failed
    events = server.answer(task())
    assert events[0] == Begin(9, 0)
    assert tokens_of(events) == greedy(list(b"the quick"), 8)


def test_probabilities_come_with_tokens() -> None:
    asked = sampling(n_probs=2)
    server = Server()
    tokens = [e for e in server.answer(task(sampling=asked, n_predict=4)) if isinstance(e, Token)]
    plain = server.final(task(sampling=asked, n_predict=4, stream=False))
    assert plain.probs == tuple(event.probs for event in tokens)
    first = plain.probs[0]
    assert ((first.id,), first.piece.decode()) == (tokens[0].tokens, tokens[0].text)
    assert len(first.top) == 2
    assert first.top[0].prob == first.prob > first.top[1].prob


def test_probabilities_of_a_stop_string_are_left_out_of_a_plain_answer() -> None:
    text = bytes(greedy(list(b"the quick"), 20)).decode()
    asked = task(n_predict=20, stop=(text[7:10],), sampling=sampling(n_probs=1), stream=False)
    final = Server().final(asked)
    assert len(final.probs) == final.n_decoded - 3


def test_metrics_count_everything_once() -> None:
    server = Server()
    server.answer(task("8 tokens", n_predict=4))
    server.answer(task("8 tokens", n_predict=1))
    counts = server.scheduler.metrics(reset_recent=True)
    assert (counts.prompt.count, counts.n_prompt_cached) == (9, 7)
    assert (counts.predicted.count, counts.predicted.steps) == (5, 3)
    assert (counts.n_decode, counts.n_busy_slots, counts.n_tokens_max) == (5, 5, 11)
    assert counts.predicted_recent == counts.predicted
    again = server.scheduler.metrics(reset_recent=False)
    assert (again.predicted.count, again.predicted_recent.count) == (5, 0)


def test_the_context_is_shared_out_as_asked() -> None:
    def sizes(n_ctx: int, n_parallel: int, unified: bool) -> tuple[int, int, int]:
        asked = settings(n_ctx=n_ctx, n_parallel=n_parallel, kv_unified=unified)
        shared = context_sizes(asked, 2048)
        return shared.n_slots, shared.n_ctx, shared.n_ctx_slot

    assert sizes(0, -1, False) == (4, 2048, 2048)
    assert sizes(0, 3, False) == (3, 6144, 2048)
    assert sizes(0, 3, True) == (3, 2048, 2048)
    assert sizes(1000, 3, False) == (3, 1536, 512)
    assert sizes(1000, 3, True) == (3, 1024, 1024)
    assert sizes(8192, 2, False) == (2, 8192, 2048)
