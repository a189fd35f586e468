"""How the server ends: told to by a signal, or because its engine can't go on."""

import asyncio
import contextlib
import faulthandler
import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

import uvicorn

from handlers.server import Server

log = logging.getLogger("mlx-llama-server")

_WATCH_SECONDS = 0.25
"""How often the engine is looked after."""
_LAST_WORDS_SECONDS = 1.0
"""How long requests are still answered, with the reason, when the engine can't go on."""
_ARM_SECONDS = 5.0
_HANG_SECONDS = 30
"""How much longer than one step the whole process may hang before it is ended from outside."""


class HttpServer(uvicorn.Server):
    """uvicorn without its own way with signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to whoever runs this server."""
        yield


class Stop:
    """Ends the HTTP server: at once, or when what is running is done."""

    def __init__(self, server: Server, http: HttpServer) -> None:
        self._server = server
        self._http = http
        self._draining: asyncio.Task[None] | None = None

    def on_signal(self) -> None:
        """Take no more requests and end when those that run are done; the second time, at once."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self._http.force_exit = True
            self.now()

    def now(self) -> None:
        """End; what still runs has to be told its end otherwise."""
        self._http.should_exit = True

    async def _drain(self) -> None:
        """Wait for running requests as long as they may take, then fail what is left."""
        self._server.draining = True
        engine, seconds = self._server.engine, self._server.settings.stop_timeout
        if engine.n_pending:
            log.info(f"finishing what is running, {seconds} seconds at most")
        end = time.monotonic() + seconds
        while engine.n_pending and time.monotonic() < end:
            await asyncio.sleep(_WATCH_SECONDS / 5)
        if engine.n_pending:
            await asyncio.to_thread(engine.stop, _LAST_WORDS_SECONDS)
        self.now()


async def watch_engine(server: Server) -> None:
    """Return when the engine can't go on, after a moment in which clients are told why."""
    limit = server.settings.step_timeout
    armed = float("-inf")
    while server.engine.check(limit):
        if time.monotonic() - armed > _ARM_SECONDS:
            # Works without Python: what keeps the interpreter itself from going on is ended too.
            faulthandler.dump_traceback_later(limit + _HANG_SECONDS, exit=True)
            armed = time.monotonic()
        await asyncio.sleep(_WATCH_SECONDS)
    faulthandler.cancel_dump_traceback_later()
    if server.engine.state == "failed":
        await asyncio.sleep(_LAST_WORDS_SECONDS)


def leave(status: int) -> NoReturn:
    """End the process although a thread doesn't end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
