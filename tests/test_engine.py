"""The engine's thread: loading, answering, stopping, and never leaving anybody waiting."""

import itertools
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.commands import EngineUnavailable
from engine.engine import Engine
from engine.errors import ModelError
from engine.events import Begin, Event, Failed, Final, Token
from engine.scheduler import Scheduler
from engine.steps.serving import Serving
from tests.tiny_llama import greedy, load, settings, task

SOON = 20.0


class Client:
    """A sink, and what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._arrived: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def __call__(self, event: Event) -> None:
        self._arrived.put(event)

    def until(self, *kinds: type) -> Event:
        """Wait for an event of one of these kinds."""
        while True:
            event = self._arrived.get(timeout=SOON)
            self.events.append(event)
            if isinstance(event, kinds):
                return event

    def end(self) -> Event:
        """Wait for the last event."""
        return self.until(Final, Failed)


@pytest.fixture
def start() -> Iterator[Callable[..., Engine]]:
    """Start engines that are stopped when the test is over."""
    engines: list[Engine] = []

    def start(load: Callable[..., Any] = load, **changes: Any) -> Engine:
        engines.append(Engine(settings(**changes), load))
        engines[-1].start()
        return engines[-1]

    yield start
    for engine in engines:
        assert engine.stop(SOON)


def test_it_loads_and_answers(start: Callable[..., Engine]) -> None:
    engine, client = start(), Client()
    assert engine.wait_ready(SOON)
    assert (engine.state, engine.sizes.n_ctx_slot, engine.model.n_ctx_train) == ("ready", 512, 1024)
    engine.submit(task(), client)
    assert isinstance(client.end(), Final)
    assert client.events[0] == Begin(9, 0)
    tokens = [e.tokens[0] for e in client.events if isinstance(e, Token)]
    assert tokens == greedy(list(b"the quick"), 8)


def test_what_comes_while_loading_is_answered_afterwards(start: Callable[..., Engine]) -> None:
    go_on, client = threading.Event(), Client()

    def slow(on_progress: Any) -> Any:
        assert go_on.wait(SOON)
        return load()

    engine = start(slow)
    engine.submit(task(), client)
    assert (engine.state, engine.wait_ready(0)) == ("loading", False)
    go_on.set()
    assert isinstance(client.end(), Final)


def test_the_loaders_progress_reaches_the_caller() -> None:
    told: list[float] = []

    def reporting(on_progress: Callable[[float], None]) -> Any:
        on_progress(0.5)
        return load()

    engine = Engine(settings(), reporting)
    engine.start(on_progress=told.append)
    assert engine.wait_ready(SOON)
    assert told == [0.5]
    assert engine.stop(SOON)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ModelError("no.gguf: there is no such file"), "no.gguf: there is no such file"),
        (ZeroDivisionError("by 0"), "the engine failed: by 0"),
    ],
)
def test_a_model_that_does_not_load_fails_all(
    start: Callable[..., Engine], error: Exception, failure: str
) -> None:
    early, late = Client(), Client()
    go_on = threading.Event()

    def failing(on_progress: Any) -> Any:
        assert go_on.wait(SOON)
        raise error

    engine = start(failing)
    engine.submit(task(), early)
    slots = engine.slots()
    go_on.set()
    assert not engine.wait_ready(SOON)
    engine.submit(task(), late)
    assert (engine.state, engine.failure) == ("failed", failure)
    assert early.end() == late.end() == Failed("server", failure)
    with pytest.raises(EngineUnavailable, match=failure):
        slots.result(SOON)


def test_cancelling_ends_a_task_without_a_word(start: Callable[..., Engine]) -> None:
    engine, client = start(n_parallel=1), Client()
    id = engine.submit(task(n_predict=-1, prompt="go on"), client)
    client.until(Token)
    engine.cancel(id)
    assert [slot.is_processing for slot in engine.slots().result(SOON)] == [False]
    following = Client()
    engine.submit(task(), following)
    assert isinstance(following.end(), Final)


def test_slots_and_metrics_show_what_is_going_on(start: Callable[..., Engine]) -> None:
    engine, running, waiting = start(n_parallel=1), Client(), Client()
    id = engine.submit(task(n_predict=-1), running)
    running.until(Token)
    other = engine.submit(task(n_predict=1), waiting)
    [slot] = engine.slots().result(SOON)
    assert (slot.id_task, slot.is_processing, slot.n_prompt_tokens_processed) == (id, True, 9)
    metrics = engine.metrics(reset_recent=False).result(SOON)
    assert (metrics.n_slots_processing, metrics.n_tasks_deferred) == (1, 1)
    engine.cancel(id)
    waiting.end()
    [slot] = engine.slots().result(SOON)
    assert (slot.id_task, slot.is_processing, slot.n_decoded) == (other, False, 0)


def test_stopping_fails_what_is_pending(start: Callable[..., Engine]) -> None:
    engine, running, waiting, late = start(n_parallel=1), Client(), Client(), Client()
    engine.submit(task(n_predict=-1), running)
    engine.submit(task(), waiting)
    running.until(Token)
    assert engine.stop(SOON)
    engine.submit(task(), late)
    failed = Failed("unavailable", "the server is shutting down")
    assert running.end() == waiting.end() == late.end() == failed
    assert engine.state == "stopped"


def test_a_process_that_served_ends_well() -> None:
    program = """
import queue
from engine.engine import Engine
from engine.events import Final
from tests.tiny_llama import load, settings, task

engine, events = Engine(settings(), load), queue.Queue()
engine.start()
engine.submit(task(), events.put)
while not isinstance(events.get(timeout=60), Final):
    pass
assert engine.stop(60)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_engine_that_never_started_can_be_stopped() -> None:
    engine, client = Engine(settings(), load), Client()
    engine.submit(task(), client)
    assert engine.stop(SOON)
    assert client.end() == Failed("unavailable", "the server is shutting down")


def test_a_step_that_raises_fails_who_was_in_it_and_serving_goes_on(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, running = start(), Client()
    assert engine.wait_ready(SOON)

    def raising(self: Serving) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Serving, "count_step", raising)
        engine.submit(task(), running)
        assert running.end() == Failed("server", "got exception: broken")
    following = Client()
    engine.submit(task(), following)
    assert isinstance(following.end(), Final)


def test_a_thread_that_dies_leaves_nobody_waiting(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, running, waiting = start(n_parallel=1), Client(), Client()
    engine.submit(task(n_predict=-1), running)
    engine.submit(task(), waiting)
    running.until(Token)

    def dying(self: Scheduler) -> None:
        raise SystemExit("gone")

    monkeypatch.setattr(Scheduler, "step", dying)
    assert running.end() == waiting.end() == Failed("server", "the engine failed: gone")
    assert engine.state == "failed"


def test_a_step_that_does_not_return_fails_all_and_later_answers_nobody(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, running, waiting, late = start(n_parallel=1), Client(), Client(), Client()
    hangs, let_go, steps = threading.Event(), threading.Event(), itertools.count()
    plain = Scheduler.step

    def stuck(self: Scheduler) -> None:
        # Not the steps that a first token takes, and before the text ends.
        if next(steps) == 5:
            hangs.set()
            assert let_go.wait(SOON)
        plain(self)

    monkeypatch.setattr(Scheduler, "step", stuck)
    engine.submit(task(n_predict=-1), running)
    engine.submit(task(), waiting)
    running.until(Token)
    assert hangs.wait(SOON) and engine.check(SOON)
    slots = engine.slots()
    while engine.check(0.2):
        pass
    engine.submit(task(), late)
    failed = Failed("server", "a step didn't return within 0.2 seconds")
    assert running.end() == waiting.end() == late.end() == failed
    with pytest.raises(EngineUnavailable, match=failed.message):
        slots.result(SOON)
    assert engine.n_pending == 0
    let_go.set()
    assert engine.stop(SOON)
    assert (engine.state, engine.failure) == ("failed", failed.message)
    assert all(client._arrived.empty() for client in (running, waiting, late))


def test_an_engine_at_rest_is_well_however_long(start: Callable[..., Engine]) -> None:
    engine = start()
    assert engine.wait_ready(SOON)
    engine.slots().result(SOON)
    while engine._clock.seconds:
        pass
    assert engine.check(0)


def test_a_slot_is_saved_when_its_task_is_done(
    start: Callable[..., Engine], tmp_path: Path
) -> None:
    engine, client = start(n_parallel=1), Client()
    engine.submit(task(n_predict=40), client)
    client.until(Token)
    saved = engine.save_slot(0, tmp_path / "slot")
    assert isinstance(client.end(), Final)
    assert saved.result(SOON).n_tokens == 48
    assert engine.erase_slot(0).result(SOON) == 48
    assert engine.restore_slot(-5, tmp_path / "slot").result(SOON) == saved.result()


def test_a_slot_that_is_never_free_is_not_waited_for_in_vain(
    start: Callable[..., Engine], tmp_path: Path
) -> None:
    engine, client = start(n_parallel=1), Client()
    engine.submit(task(n_predict=-1), client)
    client.until(Token)
    saved = engine.save_slot(0, tmp_path / "slot")
    assert engine.stop(SOON)
    with pytest.raises(EngineUnavailable, match="the server is shutting down"):
        saved.result(SOON)
