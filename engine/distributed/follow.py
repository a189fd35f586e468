"""What a process other than rank 0 does: loads its part of the model, and repeats what rank 0 does.

It answers nobody and decides nothing, and it ends when rank 0 does, whatever it is at then.
"""

import logging
import os
import queue
import signal
import sys
import threading
from pathlib import Path

from engine.caches.typed_model import use_cache_types
from engine.distributed.channel import Connection, Message, connect
from engine.distributed.launch import Launch
from engine.distributed.open import greeting, join, loaded_message
from engine.distributed.runner import Mirror
from engine.errors import ModelError
from engine.loading import Weights, load_model
from engine.loading.sharing import Share
from engine.memory import give_back, limit_free_buffers
from engine.running.runner import Runner
from engine.settings import EngineSettings

log = logging.getLogger(__name__)

_REST_SECONDS = 1.0
"""How long nothing is to be done before freed memory is given back."""
_LAST_SECONDS = 1.0
"""How long what is being computed may take once rank 0 has ended."""


def follow(path: Path, launch: Launch, settings: EngineSettings, *, n_ctx: int | None) -> int:
    """Serve rank 0 until it ends; the exit status.

    For the main thread of a process that does nothing else. Raises `ModelError` if rank 0 can't
    be reached; of what fails later rank 0 is told, which says it.
    """
    # Who stops the server from a terminal stops all processes; rank 0 then says when to end.
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    leader = _Leader(connect(launch, greeting()))
    try:
        _serve(path, launch, settings, leader, n_ctx)
    except _Ended:
        return leader.status
    except ModelError as error:
        leader.say("failed", str(error))
    except Exception as error:
        log.exception("rank %d can't go on", launch.rank)
        leader.say("failed", f"{type(error).__name__}: {error}")
    return 1


def _serve(
    path: Path, launch: Launch, settings: EngineSettings, leader: "_Leader", n_ctx: int | None
) -> None:
    leader.hear()
    limit_free_buffers()

    def agree(own: Weights, n_values: int) -> Weights:
        leader.say("weights", own, n_values)
        chosen: Weights = leader.hear()[1]
        return chosen

    loaded = load_model(path, n_ctx=n_ctx, share=Share(join(launch), agree))
    use_cache_types(loaded.model, settings.cache_type_k, settings.cache_type_v)
    leader.say(*loaded_message(loaded))
    log.info("rank %d of %d holds its part of the model", launch.rank, launch.size)
    runner = Runner(loaded.model, loaded.n_vocab, spare=settings.n_ubatch, in_one_go=False)
    mirror = Mirror(runner)
    while True:
        mirror.repeat(leader.hear())


class _Ended(Exception):
    """Rank 0 has ended."""


class _Leader:
    """The connection to rank 0, read on a thread of its own: the main one may be computing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._heard: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.status = 1
        threading.Thread(target=self._listen, name="rank 0", daemon=True).start()

    def say(self, *message: object) -> None:
        """Send a message; that rank 0 is gone is noticed elsewhere."""
        try:
            self._connection.send(list(message))
        except OSError as error:
            log.debug("rank 0 doesn't hear: %s", error)

    def hear(self) -> Message:
        """Wait for a message, without using the processor; raises `_Ended`."""
        try:
            message = self._heard.get(timeout=_REST_SECONDS)
        except queue.Empty:
            give_back()
            message = self._heard.get()
        if message is None:
            raise _Ended
        return message

    def _listen(self) -> None:
        while (message := self._connection.receive()) is not None and message[0] != "end":
            self._heard.put(message)
        if message is None:
            print("error: rank 0 has ended", file=sys.stderr)
        else:
            self.status = 1 if message[1] else 0
        self._heard.put(None)
        # What waits for rank 0 in a collective waits for ever.
        threading.Event().wait(_LAST_SECONDS)
        os._exit(self.status)
