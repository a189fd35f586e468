"""The tasks of one request while the engine works on them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from engine.engine import Engine
from engine.events import Event, Failed, Final
from engine.task import CompletionTask
from handlers.mailbox import Mailbox


class Run:
    """Gives the events of all tasks as they come; `close()` cancels what is left."""

    def __init__(
        self, engine: Engine, mailbox: Mailbox, tasks: Sequence[CompletionTask], n_cmpl: int
    ) -> None:
        """Each `n_cmpl` tasks in a row have the same prompt."""
        self._engine = engine
        self._mailbox = mailbox
        self._events: deque[tuple[int, Event]] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self.unfinished: set[int] = set(range(len(tasks)))
        numbered = [(task, self._sink(number)) for number, task in enumerate(tasks)]
        self._ids: list[int] = []
        for at in range(0, len(numbered), n_cmpl):
            self._ids += self._engine.submit_together(numbered[at : at + n_cmpl])

    @property
    def has_next(self) -> bool:
        """Whether `next` has something to give at once."""
        return bool(self._events)

    async def next(self, timeout: float | None = None) -> tuple[int, Event]:
        """The next event and its task's number; raises TimeoutError after `timeout` seconds."""
        if not self._events:
            await self._arrives(timeout)
        number, event = self._events.popleft()
        if isinstance(event, (Final, Failed)):
            self.unfinished.discard(number)
        return number, event

    def close(self) -> None:
        """Cancel every task that isn't finished."""
        self._stop_timer()
        for number in self.unfinished:
            self._engine.cancel(self._ids[number])

    def _sink(self, number: int) -> Callable[[Event], None]:
        def put(event: Event) -> None:
            self._mailbox.put(self._take, (number, event))

        return put

    def _take(self, numbered: tuple[int, Event]) -> None:
        self._events.append(numbered)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def _arrives(self, timeout: float | None) -> None:
        """Return when there is an event."""
        self._arrival = self._loop.create_future()
        self._deadline = inf if timeout is None else self._loop.time() + timeout
        if self._deadline < (self._timer.when() if self._timer else inf):
            self._stop_timer()
            self._timer = self._loop.call_at(self._deadline, self._look)
        await self._arrival

    def _look(self) -> None:
        """See whether the wait that goes on now is over: one timer does for many waits."""
        self._timer = None
        if self._arrival is None or self._arrival.done():
            return
        if self._loop.time() >= self._deadline:
            self._arrival.set_exception(TimeoutError())
        elif self._deadline < inf:
            self._timer = self._loop.call_at(self._deadline, self._look)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
