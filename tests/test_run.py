"""How the events of a request reach the event loop: in order, with few wake-ups, or not in time."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from engine.engine import Engine
from engine.events import Begin, Final, Token
from handlers.mailbox import Mailbox
from handlers.run import Run
from tests.tiny_llama import greedy, load, settings, task

SOON = 20.0


def on_a_thread(do: Callable[[], None]) -> None:
    """Call on another thread while the event loop stands still."""
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def test_what_comes_meanwhile_is_taken_with_what_woke_the_loop() -> None:
    taken: list[object] = []

    async def main() -> None:
        mailbox, loop = Mailbox(), asyncio.get_running_loop()

        def put_two() -> None:
            mailbox.put(taken.append, 1)
            loop.call_soon_threadsafe(taken.append, "the loop's next")
            mailbox.put(taken.append, 2)

        for _ in range(2):
            on_a_thread(put_two)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert taken == [1, 2, "the loop's next"] * 2


def test_a_run_gives_every_event_of_its_tasks_and_says_when_there_is_none_in_time() -> None:
    engine = Engine(settings(), load)

    async def main() -> list[tuple[int, object]]:
        run = Run(engine, Mailbox(), [task(), task("lazy dog")], 1)
        for seconds in (0.02, 0.01):
            with pytest.raises(TimeoutError):
                await run.next(seconds)
        assert (run.unfinished, run.has_next) == ({0, 1}, False)
        engine.start()
        events: list[tuple[int, object]] = []
        while run.unfinished:
            events.append(await run.next(SOON))
        run.close()
        return events

    try:
        events = asyncio.run(main())
    finally:
        assert engine.stop(SOON)
    for number, prompt in enumerate((b"the quick", b"lazy dog")):
        own = [event for which, event in events if which == number]
        tokens = [event.tokens[0] for event in own if isinstance(event, Token)]
        assert (own[0], type(own[-1])) == (Begin(len(prompt), 0), Final)
        assert tokens == greedy(list(prompt), 8)


def test_a_run_is_told_in_time_after_a_longer_wait() -> None:
    engine = Engine(settings(), load)
    engine.start()

    async def main() -> None:
        run = Run(engine, Mailbox(), [task(n_predict=1)], 1)
        while run.unfinished:
            await run.next(2 * SOON)
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            await run.next(0.01)
        run.close()
        assert time.monotonic() - start < SOON

    try:
        asyncio.run(main())
    finally:
        assert engine.stop(SOON)


def test_closing_a_run_cancels_what_is_left_of_it() -> None:
    engine = Engine(settings(), load)

    async def main() -> None:
        run = Run(engine, Mailbox(), [task(n_predict=-1)], 1)
        assert engine.n_pending == 1
        run.close()
        assert engine.n_pending == 0

    asyncio.run(main())
    assert engine.stop(SOON)
