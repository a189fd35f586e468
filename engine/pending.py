"""What callers of the engine still wait for: each is told an end exactly once, whoever tells it."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from typing import Any, TypeVar

from engine.events import Event, Failed, FailureKind, Final
from engine.run import Request, send

T = TypeVar("T")


class Pending:
    """Open tasks and questions; any thread may call any method."""

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        self._futures: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._requests) + len(self._futures)

    def follow(self, requests: Sequence[Request]) -> list[Request]:
        """The same requests, whose sinks hear nothing after their end or after `forget`."""
        with self._lock:
            self._requests |= {request.id: request for request in requests}
        return [replace(request, sink=_Following(self, request)) for request in requests]

    def watch(self, future: "Future[Any]") -> None:
        """Count a question as open until it is answered."""
        with self._lock:
            self._futures.add(future)
        future.add_done_callback(self._answered)

    def is_open(self, request: Request) -> bool:
        """Whether its end was not told yet."""
        return request.id in self._requests

    def forget(self, request_id: int) -> bool:
        """Tell a task nothing more; False if it had ended already."""
        with self._lock:
            return self._requests.pop(request_id, None) is not None

    def fail_all(self, kind: FailureKind, message: str, error: Exception) -> None:
        """End everything here and now, though the engine's thread may still be at it."""
        with self._lock:
            requests, futures = list(self._requests.values()), list(self._futures)
        for request in requests:
            if self.forget(request.id):
                send(request, Failed(kind, message))
        for future in futures:
            set_exception(future, error)

    def _answered(self, future: "Future[Any]") -> None:
        with self._lock:
            self._futures.discard(future)


class _Following:
    """A sink that hands events on as long as its task is open."""

    def __init__(self, pending: Pending, request: Request) -> None:
        self._pending = pending
        self._request = request

    def __call__(self, event: Event) -> None:
        if isinstance(event, Final | Failed):
            if self._pending.forget(self._request.id):
                self._request.sink(event)
        elif self._pending.is_open(self._request):
            self._request.sink(event)


class StepClock:
    """How long the engine's thread has been at what it is doing now."""

    def __init__(self) -> None:
        self._started: float | None = None

    def start(self) -> None:
        """It takes something up."""
        self._started = time.monotonic()

    def stop(self) -> None:
        """It has nothing to do."""
        self._started = None

    @property
    def seconds(self) -> float:
        """Seconds since it took up what it is at; 0 if it has nothing to do."""
        started = self._started
        return 0.0 if started is None else time.monotonic() - started


def set_exception(future: "Future[Any]", error: Exception) -> None:
    """Answer with an error unless there is an answer already."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return


def set_result(future: "Future[T]", result: T) -> None:
    """Answer unless there is an answer already."""
    try:
        future.set_result(result)
    except InvalidStateError:
        return
