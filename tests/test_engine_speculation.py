"""Serving with guesses: the same tokens as without, in fewer steps, whatever ends them."""

from typing import Any

import pytest

from engine.events import Failed, Final, Token
from engine.speculation import NgramSizes, SpeculationSettings
from engine.task import CompletionTask
from tests.stepped import Server, text_of, tokens_of
from tests.tiny_llama import EOS, TinyModel, load, model_here, sampling, speculation, task

SMALL = NgramSizes(size_n=2, size_m=8, min_hits=1)
REPEATED = "the quick brown fox " * 3
KINDS = ["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]
SAMPLED = sampling(temperature=0.7, seed=5)


def small(*kinds: str, **changes: Any) -> SpeculationSettings:
    sizes = {"simple": SMALL, "map_k": SMALL, "map_k4v": SMALL}
    return speculation(*kinds, mod_n_match=2, mod_n_min=2, mod_n_max=8, **sizes | changes)


def server(*kinds: str, **changes: Any) -> Server:
    return Server(**{"n_parallel": 1, "speculation": small(*kinds)} | changes)


def told(final: Final) -> tuple[Any, ...]:
    """What a client sees, without durations and drafts."""
    return (
        final.content,
        final.tokens,
        final.stop_type,
        final.stopping_word,
        final.truncated,
        final.n_decoded,
    )


def alike(given: CompletionTask, *kinds: str, **changes: Any) -> Final:
    """The answer with guesses, after making sure that it is the one without."""
    final = server(*kinds, **changes).final(given)
    assert told(final) == told(server(**changes).final(given))
    return final


def drafted(final: Final) -> tuple[int | None, int | None]:
    return final.timings.draft_n, final.timings.draft_n_accepted


def repeated(**changes: Any) -> CompletionTask:
    return task(
        **{"prompt": REPEATED, "n_predict": 120, "stream": False, "sampling": SAMPLED} | changes
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_every_kind_gives_the_text_without_it(kind: str, temperature: float) -> None:
    final = alike(repeated(sampling=sampling(temperature=temperature, seed=5)), kind)
    assert final.stop_type == "limit"
    if kind.startswith("ngram-map"):
        assert (final.timings.draft_n_accepted or 0) > 50


def test_guesses_save_steps() -> None:
    with_guesses = server("ngram-map-k")
    final = with_guesses.final(repeated())
    counts = with_guesses.scheduler.metrics(reset_recent=False)
    assert counts.n_draft == final.timings.draft_n
    assert counts.n_draft_accepted == final.timings.draft_n_accepted
    assert sum(counts.n_accepted_per_position) == counts.n_draft_accepted
    assert len(counts.n_accepted_per_position) == SMALL.size_m
    # Four steps read the prompt, in chunks of sixteen tokens; the last gives a token.
    assert counts.n_decode == 3 + final.n_decoded - counts.n_draft_accepted
    assert counts.n_draft_verified > 0


def test_without_a_draft_nothing_is_said_of_it() -> None:
    final = server("ngram-simple").final(task("one two", stream=False))
    assert drafted(final) == (None, None)


def test_a_limit_inside_a_draft_ends_the_answer_there() -> None:
    for n_predict in range(40, 52):
        final = alike(repeated(n_predict=n_predict), "ngram-map-k")
        assert final.n_decoded == n_predict


def test_a_stop_word_inside_a_draft_ends_the_answer_there() -> None:
    beyond = []
    for n in range(10, 20):
        final = alike(repeated(stop=(":" * n,)), "ngram-map-k")
        assert final.stop_type == "word"
        beyond.append(final.n_tokens_cached - (final.n_prompt_tokens + final.n_decoded - 1))
    # The cache holds what was right beyond the end.
    assert (min(beyond), max(beyond)) == (0, 8)


def test_an_end_inside_a_draft_ends_the_answer_there() -> None:
    prompt = [*b"abcd", EOS, *b"xy1234"] * 4 + [*b"ab"]
    for grammar in ('root ::= "cd"', 'root ::= "cdcdcd" | "cd"', 'root ::= [cd]+ "x"?'):
        given = task(prompt, n_predict=30, stream=False, sampling=sampling(grammar=grammar))
        final = alike(given, "ngram-simple", "ngram-map-k")
        assert (final.timings.draft_n or 0) > 0


def test_what_the_grammar_forbids_isnt_guessed_right() -> None:
    given = repeated(sampling=sampling(grammar='root ::= ("brown fox" " "?)+', n_probs=0))
    assert (alike(given, "ngram-map-k").timings.draft_n_accepted or 0) > 20


def test_several_slots_guess_at_the_same_time() -> None:
    tasks = [repeated(sampling=sampling(temperature=0.7, seed=seed)) for seed in (5, 6, 7)]
    alone = [told(server().final(one)) for one in tasks]
    together = server("ngram-map-k", n_parallel=3)
    ids = [together.submit(one) for one in tasks]
    together.run()
    finals = [together.events[id][-1] for id in ids]
    assert [told(final) for final in finals if isinstance(final, Final)] == alone
    assert all(drafted(final) != (None, None) for final in finals if isinstance(final, Final))


def test_tasks_that_share_a_prompt_guess_each_for_itself() -> None:
    tasks = [repeated(sampling=sampling(temperature=0.7, seed=seed)) for seed in (5, 6)]
    finals: list[list[tuple[Any, ...]]] = []
    for kinds in ((), ("ngram-map-k",)):
        shared = server(*kinds, n_parallel=2)
        ids = shared.submit_together(*tasks)
        shared.run()
        events = [shared.events[id][-1] for id in ids]
        finals.append([told(event) for event in events if isinstance(event, Final)])
    assert finals[0] == finals[1]


def test_a_stream_tells_token_by_token() -> None:
    plain = server().answer(repeated(stream=True))
    guessing = server("ngram-mod").answer(repeated(stream=True))
    assert tokens_of(guessing) == tokens_of(plain)
    assert text_of(guessing) == text_of(plain)
    counts = [event.n_decoded for event in guessing if isinstance(event, Token)]
    assert counts == list(range(1, 121))


def test_checked_tokens_have_no_candidates() -> None:
    given = repeated(n_predict=20, sampling=sampling(n_probs=2))
    first, *_, last = server("ngram-map-k").final(given).probs
    assert (len(first.top), last.top, last.prob) == (2, (), 1.0)


@pytest.mark.parametrize("ctx_shift", [False, True])
def test_a_full_context_comes_when_it_would(ctx_shift: bool) -> None:
    for n_prompt in range(150, 160):
        given = task((REPEATED * 3)[:n_prompt], n_predict=150, stream=False)
        final = alike(given, "ngram-map-k", "ngram-mod", n_ctx=256, ctx_shift=ctx_shift)
        assert final.truncated
        assert (final.timings.draft_n or 0) > 0


def test_a_prompt_that_goes_on_finds_all_that_was_accepted() -> None:
    guessing = server("ngram-map-k")
    first = guessing.final(repeated())
    longer = list(REPEATED.encode()) + list(first.tokens)
    following = guessing.final(repeated(prompt=longer))
    assert following.n_prompt_tokens_cache == len(longer) - 1
    plain = server()
    plain.final(repeated())
    assert told(following) == told(plain.final(repeated(prompt=longer)))


def with_draft(model: TinyModel, draft: Any, **changes: Any) -> Server:
    return Server(model, draft=draft, n_parallel=1, **changes)


def test_a_draft_model_goes_ahead() -> None:
    given = task(n_predict=40, stream=False)
    settings = speculation("draft-simple", draft_n_max=5)
    twin = with_draft(model_here(), model_here().model, speculation=settings)
    final = twin.final(given)
    assert told(final) == told(server().final(given))
    # Its own twin is always right: six times six tokens after the first one, then three.
    assert drafted(final) == (32, 32)
    again = twin.final(given)
    assert told(again) == told(final)


def test_a_draft_model_that_isnt_sure_says_nothing() -> None:
    sure, unsure = (
        with_draft(
            model_here(),
            model_here().model,
            speculation=speculation("draft-simple", draft_p_min=p_min, draft_n_min=n_min),
        ).final(task(n_predict=20, stream=False))
        for p_min, n_min in ((0.0, 3), (1.01, 0))
    )
    assert told(sure) == told(unsure)
    assert drafted(unsure) == (None, None)


def test_what_cant_be_rolled_back_isnt_speculated(caplog: pytest.LogCaptureFixture) -> None:
    windowed = Server(load(window=8), n_parallel=1, speculation=small("ngram-map-k"))
    assert drafted(windowed.final(repeated())) == (None, None)
    assert caplog.messages == ["this model's cache can't be rolled back: nothing is speculated"]
    assert not windowed.scheduler.slots()[0].speculates


def test_slots_say_whether_they_speculate() -> None:
    assert server("ngram-mod").scheduler.slots()[0].speculates
    assert not server().scheduler.slots()[0].speculates


def test_a_drafter_that_raises_ends_its_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    guessing = server("ngram-simple", n_parallel=2)
    plain = told(server().final(repeated()))
    speculator = guessing.scheduler._draft._speculator  # type: ignore[union-attr]
    ask = speculator.draft

    def raising(id_slot: int, *args: Any) -> list[int]:
        if id_slot == 0:
            raise RuntimeError("no idea")
        return ask(id_slot, *args)

    monkeypatch.setattr(speculator, "draft", raising)
    ids = [guessing.submit(repeated(id_slot=id)) for id in (0, 1)]
    guessing.run()
    ill, well = (guessing.events[id][-1] for id in ids)
    assert ill == Failed("server", "got exception: no idea")
    assert isinstance(well, Final) and told(well) == plain


def test_a_model_that_raises_amid_a_draft_leaves_a_clean_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guessing = server("ngram-map-k")
    runner = guessing.scheduler._decode._runner
    decode, n_calls = runner.decode, 0

    def raising(tokens: Any, caches: Any, batch: int = 1) -> Any:
        nonlocal n_calls
        n_calls += len(tokens) > 1
        if n_calls == 2:
            raise RuntimeError("broken")
        return decode(tokens, caches, batch)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "decode", raising)
        events = guessing.answer(repeated())
    assert events == [Failed("server", "got exception: broken")]
    assert guessing.scheduler.slots()[0].n_prompt_tokens == 0
    assert told(guessing.final(repeated())) == told(server().final(repeated()))
