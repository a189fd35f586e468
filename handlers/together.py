"""Serving a model together with other processes, when `mlx.launch` started them.

Rank 0 answers HTTP as a process alone does; the others only hold their parts of the model.
"""

import logging
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.distributed.channel import Followers
from engine.distributed.follow import follow
from engine.distributed.launch import Launch
from engine.distributed.open import open_shared
from engine.engine import Engine
from engine.errors import ModelError
from engine.open_model import OpenModel
from engine.settings import EngineSettings
from generated.options import Settings

log = logging.getLogger("mlx-llama-server")


def refusal(settings: Settings) -> str:
    """Why these settings can't be served by several processes; empty if they can."""
    if settings.slot_save_path:
        return (
            "--slot-save-path can't be used when several processes share a model,"
            " since each holds a part of every slot"
        )
    return ""


def follow_rank_0(
    settings: Settings, engine_settings: EngineSettings, launch: Launch, n_ctx: int | None
) -> int:
    """Hold a part of the model until rank 0 ends; the exit status."""
    try:
        return follow(Path(settings.model), launch, engine_settings, n_ctx=n_ctx)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def shared_engine(
    settings: Settings,
    engine_settings: EngineSettings,
    launch: Launch,
    n_ctx: int | None,
    load_draft: Callable[[], OpenModel] | None,
) -> tuple[Engine, Followers]:
    """Rank 0's engine, given up if another process ends; close the followers after it.

    A draft model is rank 0's alone.
    """

    def load(progress: Callable[[float], None] | None) -> OpenModel:
        return open_shared(
            Path(settings.model),
            progress,
            n_ctx=n_ctx,
            spare=engine_settings.n_ubatch,
            launch=launch,
            followers=followers,
        )

    engine = Engine(engine_settings, load, load_draft)
    followers = Followers(launch, engine.give_up)
    _stop_without_launcher()
    return engine, followers


def _stop_without_launcher() -> None:
    """Stop as on SIGTERM if the launcher ends, which holds the other end of standard input."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            threading.Thread(target=_watch_launcher, name="launcher", daemon=True).start()


def _watch_launcher() -> None:
    poll = select.poll()
    # Only the end is reported, not what there is to read.
    poll.register(0, 0)
    poll.poll()
    log.info("the launcher has ended")
    os.kill(os.getpid(), signal.SIGTERM)
