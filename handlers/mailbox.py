"""What other threads tell the event loop, with one wake-up for all that is there."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Mailbox:
    """Has things called on the event loop, in the order in which they were put in.

    Waking the loop costs the engine's thread a system call and, for a moment, the interpreter's
    lock. So only the first event of a step does it, and the others come with it.
    """

    def __init__(self) -> None:
        """To be made on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._letters: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._called = False

    def put(self, take: Callable[[Any], None], letter: object) -> None:
        """Have `take(letter)` called; from any thread. RuntimeError if the loop is closed."""
        self._letters.append((take, letter))
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # What is put in from now on calls again, so nothing is left lying.
        self._called = False
        while self._letters:
            take, letter = self._letters.popleft()
            take(letter)
