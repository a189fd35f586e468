"""The engine: one thread that owns the model and every MLX call, and how others reach it."""

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import mlx.core as mx

from engine.caches.typed_model import cache_sizes, use_cache_types
from engine.commands import Ask, Cancel, Command, EngineUnavailable, OnSlot, Submit
from engine.errors import GroupBroken, ModelError
from engine.events import FailureKind
from engine.loading import LoadedModel
from engine.memory import give_back, limit_free_buffers
from engine.metrics import Metrics
from engine.open_model import OpenModel
from engine.pending import Pending, StepClock
from engine.run import Request, Sink
from engine.scheduler import Scheduler
from engine.settings import ContextSizes, EngineSettings, context_sizes
from engine.slots.files import SlotFileFigures
from engine.slots.pool import ReasoningEnd
from engine.slots.slot import Slot, SlotView
from engine.speculation.compatible import difference
from engine.task import CompletionTask
from engine.tokenizer import Tokenizer

log = logging.getLogger(__name__)

State = Literal["loading", "ready", "failed", "stopped"]
T = TypeVar("T")
OnProgress = Callable[[float], None]

_STOPPED = "the server is shutting down"
_PAUSE_SECONDS = 1.0
"""How long there has to be nothing to do before memory is given back."""


class Engine:
    """Loads a model and answers tasks until it is stopped; any thread may call any method.

    What is handed in while the model loads is done afterwards. When the thread can't go on,
    everything pending fails, and so does everything handed in later: nobody waits for ever.
    """

    def __init__(
        self,
        settings: EngineSettings,
        load: Callable[[OnProgress | None], OpenModel],
        load_draft: Callable[[], OpenModel] | None = None,
    ) -> None:
        """Nothing is loaded before `start()`; `load` is called once, on the engine's thread.

        So is `load_draft`, for a smaller model that guesses ahead.
        """
        self.settings = settings
        self._open_model = load
        self._open_draft = load_draft
        self.state: State = "loading"
        self.failure = ""
        """Why the state is "failed" or "stopped", as a line that can be shown."""
        self._opened: OpenModel | None = None
        self._sizes: ContextSizes | None = None
        self._on_progress: OnProgress | None = None
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._pending = Pending()
        self._clock = StepClock()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)

    def start(self, *, on_progress: OnProgress | None = None) -> None:
        """Load the model on the engine's thread; `on_progress` is called there with shares of 1."""
        self._on_progress = on_progress
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait, at most `timeout` seconds, until loading is over; whether the model can be used."""
        self._settled.wait(timeout)
        return self.state == "ready"

    def stop(self, timeout: float | None = None) -> bool:
        """Fail what is pending and end the thread; False if that takes over `timeout` seconds."""
        self._stopping = True
        self._inbox.put(None)
        if self._thread.ident is None:
            self._close(None, "stopped", _STOPPED)
        else:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def check(self, step_limit: float) -> bool:
        """Look after the engine's thread from another one; whether it is as it should be.

        If it ended unseen, or has been at one step for more than `step_limit` seconds, the engine
        is given up: everything pending fails, and so does everything from now on. Loading and
        writing files to disk count as steps only once the model is there.
        """
        if self.state == "ready" and self._clock.seconds > step_limit:
            self.give_up(f"a step didn't return within {step_limit:g} seconds")
        started = self._thread.ident is not None
        if self.state in ("loading", "ready") and started and not self._thread.is_alive():
            self.give_up("the engine's thread ended")
        return self.state in ("loading", "ready")

    def give_up(self, failure: str) -> None:
        """End all without the engine's thread, which can't be relied on any longer."""
        with self._lock:
            if self.state not in ("loading", "ready"):
                return
            self.state, self.failure = "failed", failure
        log.error("the engine is given up: %s", failure)
        self._stopping = True
        self._pending.fail_all("server", failure, EngineUnavailable(failure))
        self._settled.set()

    @property
    def n_pending(self) -> int:
        """How many tasks and questions somebody waits for."""
        return len(self._pending)

    @property
    def model(self) -> LoadedModel:
        """What is known of the model; raises RuntimeError before it is loaded."""
        return _loaded(self._opened).description

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, for any thread; raises RuntimeError before it is loaded."""
        return _loaded(self._opened).tokenizer

    @property
    def sizes(self) -> ContextSizes:
        """Slots and context sizes; raises RuntimeError before the model is loaded."""
        return _loaded(self._sizes)

    def submit(self, task: CompletionTask, sink: Sink) -> int:
        """Serve a task and return its id.

        `sink` gets its events on the engine's thread, possibly before this returns; the last is
        a Final or a Failed. A sink that raises has its task cancelled.
        """
        return self.submit_together([(task, sink)])[0]

    def submit_together(self, tasks: Sequence[tuple[CompletionTask, Sink]]) -> list[int]:
        """Serve tasks that share one prompt and return their ids.

        The prompt is evaluated once, for the first task; all start together, each in a slot of
        its own, so there must be no more of them than slots.
        """
        requests = self._pending.follow(
            [Request(next(self._ids), task, sink) for task, sink in tasks]
        )
        self._put(Submit(replace(requests[0], children=tuple(requests[1:]))))
        return [request.id for request in requests]

    def cancel(self, task_id: int) -> None:
        """Drop a task; its slot is free after the step that is running. No event tells of it."""
        self._pending.forget(task_id)
        self._put(Cancel(task_id))

    def save_slot(self, id_slot: int, path: Path) -> "Future[SlotFileFigures]":
        """Write what a slot holds to a file, once it is free; the future may raise OSError."""
        return self._on_slot(id_slot, lambda scheduler, slot: scheduler.save_slot(slot, path))

    def restore_slot(self, id_slot: int, path: Path) -> "Future[SlotFileFigures]":
        """Read a file into a slot, once that is free; the future may raise SlotFileError."""
        return self._on_slot(id_slot, lambda scheduler, slot: scheduler.restore_slot(slot, path))

    def erase_slot(self, id_slot: int) -> "Future[int]":
        """Forget what a slot holds, once it is free; how many tokens that were."""
        return self._on_slot(id_slot, Scheduler.erase_slot)

    def _on_slot(self, id_slot: int, action: Callable[[Scheduler, Slot], T]) -> "Future[T]":
        command = OnSlot(id_slot, action)
        self._pending.watch(command.answer)
        self._put(command)
        return command.answer

    def slots(self) -> "Future[list[SlotView]]":
        """Every slot, as it is between two steps."""
        return self.ask(Scheduler.slots)

    def end_reasoning(self, completion_id: str) -> "Future[ReasoningEnd]":
        """Have a running completion's reasoning end, if one is going on; what came of it."""
        return self.ask(lambda scheduler: scheduler.end_reasoning(completion_id))

    def metrics(self, *, reset_recent: bool) -> "Future[Metrics]":
        """The counts as they are between two steps; `reset_recent` starts the rates afresh."""
        return self.ask(lambda scheduler: scheduler.metrics(reset_recent=reset_recent))

    def ask(self, question: Callable[[Scheduler], T]) -> "Future[T]":
        """Call `question` on the engine's thread between two steps.

        The future fails with `EngineUnavailable` if the engine can't go on.
        """
        command = Ask(question)
        self._pending.watch(command.answer)
        self._put(command)
        return command.answer

    def _put(self, command: Command) -> None:
        with self._lock:
            if self.state in ("loading", "ready"):
                self._inbox.put(command)
                return
        command.refuse(*self._refusal())

    def _refusal(self) -> tuple[FailureKind, str]:
        return ("unavailable" if self.state == "stopped" else "server", self.failure)

    # On the engine's thread.

    def _main(self) -> None:
        scheduler: Scheduler | None = None
        state: State = "failed"
        failure = ""
        try:
            scheduler = self._load()
            self._serve(scheduler)
            state, failure = "stopped", _STOPPED
        except (ModelError, GroupBroken) as error:
            failure = str(error)
        except BaseException as error:
            log.exception("the engine can't go on")
            failure = f"the engine failed: {error or type(error).__name__}"
        finally:
            self._close(scheduler, state, failure)
            # MLX ends the process with an abort if a thread's streams outlive it.
            mx.clear_streams()

    def _load(self) -> Scheduler:
        limit_free_buffers()
        opened = self._open_model(self._on_progress)
        own_model, settings = opened.description.model, self.settings
        use_cache_types(own_model, settings.cache_type_k, settings.cache_type_v)
        sizes = context_sizes(settings, opened.n_ctx_train)
        scheduler = Scheduler(
            opened.model, opened.tokenizer, settings, sizes, self._load_draft(opened)
        )
        log.info("%s", cache_sizes(own_model, sizes.n_ctx_slot) or "the model has no KV cache")
        with self._lock:
            if self.state == "failed":
                raise ModelError(self.failure)
            self._opened, self._sizes = opened, sizes
            self.state = "ready"
        self._settled.set()
        return scheduler

    def _load_draft(self, opened: OpenModel) -> Any:
        """The smaller model that guesses ahead, if there is one; raises ModelError."""
        if self._open_draft is None:
            return None
        draft = self._open_draft()
        if reason := difference(opened.tokenizer, draft.tokenizer):
            raise ModelError(f"the draft model's vocabulary isn't compatible: {reason}")
        return draft.model

    def _serve(self, scheduler: Scheduler) -> None:
        """Step while there is work, between steps do what others ask for, else sleep."""
        while not self._stopping:
            self._take_commands(scheduler)
            if scheduler.idle or self._stopping:
                continue
            self._clock.start()
            try:
                scheduler.step()
            except Exception as error:
                log.exception("a step failed")
                scheduler.fail_running(*scheduler.failure_of(error))

    def _take_commands(self, scheduler: Scheduler) -> None:
        """Carry out all there is; with nothing else to do, wait for the first."""
        if scheduler.idle and self._inbox.empty():
            mx.clear_cache()
            self._clock.stop()
            self._carry_out(self._next_command(), scheduler)
        while not self._inbox.empty():
            self._carry_out(self._inbox.get(), scheduler)

    def _next_command(self) -> Command | None:
        """Wait for one; when none comes for a while, memory is given back meanwhile."""
        with suppress(queue.Empty):
            return self._inbox.get(timeout=_PAUSE_SECONDS)
        give_back()
        return self._inbox.get()

    def _carry_out(self, command: Command | None, scheduler: Scheduler) -> None:
        if command is not None:
            self._clock.start()
            command.carry_out(scheduler)

    def _close(self, scheduler: Scheduler | None, state: State, failure: str) -> None:
        """Refuse all that is pending, and from now on all that comes."""
        with self._lock:
            if self.state != "failed":
                self.state, self.failure = state, failure
        kind, message = self._refusal()
        try:
            if scheduler is not None:
                scheduler.fail_all(kind, message)
        finally:
            while not self._inbox.empty():
                command = self._inbox.get()
                if command is not None:
                    command.refuse(kind, message)
            self._pending.fail_all(kind, message, EngineUnavailable(message))
            self._settled.set()


def _loaded(value: T | None) -> T:
    if value is None:
        raise RuntimeError("the model isn't loaded")
    return value
