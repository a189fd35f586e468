"""What other threads put into the engine's inbox: each is carried out, or refused."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from engine.events import Failed, FailureKind
from engine.pending import set_exception, set_result
from engine.run import Request, send
from engine.scheduler import Scheduler
from engine.slots.slot import Slot

T = TypeVar("T")


class EngineUnavailable(Exception):
    """The engine failed or was stopped; the text says why."""


class Command(Protocol):
    """Something for the engine thread to do between two steps."""

    def carry_out(self, scheduler: Scheduler) -> None:
        """Do it."""

    def refuse(self, kind: FailureKind, message: str) -> None:
        """Tell whoever waits that it won't happen."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Serve a task, and its children with it."""

    request: Request

    def carry_out(self, scheduler: Scheduler) -> None:
        """Queue it for a slot."""
        scheduler.submit(self.request)

    def refuse(self, kind: FailureKind, message: str) -> None:
        """Fail the task and its children."""
        for request in self.request.everyone:
            send(request, Failed(kind, message))


@dataclass(frozen=True, slots=True)
class OnSlot(Generic[T]):
    """Do something with a slot as soon as it has no task, and hand the outcome over."""

    id_slot: int
    action: Callable[[Scheduler, Slot], T]
    answer: Future[T] = field(default_factory=Future)

    def carry_out(self, scheduler: Scheduler) -> None:
        """Queue it for its slot."""
        scheduler.when_free(self.id_slot, partial(self._act, scheduler), self.refuse)

    def refuse(self, kind: FailureKind, message: str) -> None:
        """Answer with `EngineUnavailable`."""
        set_exception(self.answer, EngineUnavailable(message))

    def _act(self, scheduler: Scheduler, slot: Slot) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            result = self.action(scheduler, slot)
        except Exception as error:
            set_exception(self.answer, error)
        else:
            set_result(self.answer, result)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget a task."""

    task_id: int

    def carry_out(self, scheduler: Scheduler) -> None:
        """Free its slot or its place in the queue."""
        scheduler.cancel(self.task_id)

    def refuse(self, kind: FailureKind, message: str) -> None:
        """Nobody waits for a cancellation."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """Look at the scheduler, or change it, and hand the outcome to another thread."""

    question: Callable[[Scheduler], T]
    answer: Future[T] = field(default_factory=Future)

    def carry_out(self, scheduler: Scheduler) -> None:
        """Answer, with the exception if the question raised one."""
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            result = self.question(scheduler)
        except Exception as error:
            set_exception(self.answer, error)
        else:
            set_result(self.answer, result)

    def refuse(self, kind: FailureKind, message: str) -> None:
        """Answer with `EngineUnavailable`."""
        set_exception(self.answer, EngineUnavailable(message))
