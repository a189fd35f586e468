"""The command `mlx-llama-server`: reads the command line, loads the model and serves."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvicorn

from engine.blas import use_threads
from engine.caches.types import cache_type
from engine.devices import devices
from engine.distributed.launch import launch_of
from engine.engine import Engine
from engine.errors import ModelError
from engine.open_model import open_model
from engine.settings import EngineSettings
from generated import cli, options
from generated.options import Settings
from handlers import together
from handlers.app import make_app
from handlers.chat_template import TemplateFailed
from handlers.grammars import default_grammar
from handlers.logs import set_up_logging
from handlers.progress import ProgressBar
from handlers.server import Server
from handlers.speculation import draft_loader, refusal, speculation_settings
from handlers.stopping import HttpServer, Stop, leave, watch_engine

log = logging.getLogger("mlx-llama-server")

_STOP_SECONDS = 10
"""How long connections and the engine's thread may take to end once nothing is running."""


def main() -> None:
    """Entry point of the console command."""
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Serve until stopped; the exit status, with one plain line on standard error if not 0."""
    try:
        settings = _effective(options.parse(argv, dict(os.environ), devices))
    except cli.CommandLineExit as ending:
        sys.stdout.write(ending.out)
        sys.stderr.write(ending.err)
        return ending.status
    except ValueError as error:
        return _refuse(str(error))
    set_up_logging(settings)
    for line in settings.announcements:
        log.info(line)
    if not settings.model:
        return _refuse("no model given: start with -m FILE, a GGUF file or an MLX model folder")
    try:
        launch = launch_of(os.environ)
    except ModelError as error:
        return _refuse(str(error))
    if reason := refusal(settings) or (together.refusal(settings) if launch else ""):
        return _refuse(reason)
    n_ctx = _context_of_one(settings)
    use_threads(settings.n_threads)
    if launch is not None and launch.rank > 0:
        return together.follow_rank_0(settings, engine_settings(settings), launch, n_ctx)
    try:
        listener = _listen(settings)
    except OSError as error:
        return _refuse(
            f"couldn't bind to {settings.hostname}:{settings.port}: {error.strerror}"
            " (is another server running there? choose another with --port)"
        )
    draft = draft_loader(settings, n_ctx)
    if launch is None:
        load = partial(open_model, Path(settings.model), n_ctx=n_ctx)
        engine = Engine(engine_settings(settings), load, draft)
        return asyncio.run(_serve(Server(settings, engine), listener))
    engine, followers = together.shared_engine(
        settings, engine_settings(settings), launch, n_ctx, draft
    )
    server = Server(settings, engine)
    status = asyncio.run(_serve(server, listener))
    followers.close("end", server.failure)
    return leave(status)


def _effective(settings: Settings) -> Settings:
    """The settings with automatic values decided, as upstream decides them at start.

    Raises ValueError for a JSON Schema that has no grammar and for a cache type that MLX hasn't.
    """
    for name in (settings.cache_type_k, settings.cache_type_v):
        cache_type(name)
    if settings.json_schema:
        settings = replace(settings, grammar=default_grammar(settings))
    if settings.n_parallel < 0:
        return replace(settings, n_parallel=4, kv_unified=True)
    return settings


def _context_of_one(settings: Settings) -> int | None:
    """Tokens that one sequence may have; None where the model's own context decides."""
    if not settings.n_ctx:
        return None
    return settings.n_ctx if settings.kv_unified else settings.n_ctx // settings.n_parallel


def engine_settings(settings: Settings) -> EngineSettings:
    """The engine's part of the settings."""
    return EngineSettings(
        n_ctx=settings.n_ctx,
        n_parallel=settings.n_parallel,
        kv_unified=settings.kv_unified,
        n_batch=settings.n_batch,
        n_ubatch=settings.n_ubatch,
        n_predict=settings.n_predict,
        slot_prompt_similarity=settings.slot_prompt_similarity,
        special=settings.special,
        ctx_shift=settings.ctx_shift,
        cache_ram_mib=settings.cache_ram_mib,
        cache_idle_slots=settings.cache_idle_slots,
        n_ctx_checkpoints=settings.n_ctx_checkpoints,
        checkpoint_min_step=settings.checkpoint_min_step,
        speculation=speculation_settings(settings),
        cache_type_k=settings.cache_type_k,
        cache_type_v=settings.cache_type_v,
    )


async def _serve(server: Server, listener: socket.socket) -> int:
    """Answer HTTP from the start, load meanwhile; stop when told or when the engine fails."""
    config = uvicorn.Config(
        make_app(server),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_keep_alive=server.settings.timeout_read,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_keyfile=server.settings.ssl_file_key or None,
        ssl_certfile=server.settings.ssl_file_cert or None,
    )
    http = HttpServer(config)
    stop = Stop(server, http)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.on_signal)
    serving = asyncio.create_task(http.serve(sockets=[listener]))
    watching = asyncio.create_task(_watch_engine(server, stop))
    await serving
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    failure = server.failure
    status = _refuse(failure) if failure else 0
    if not await asyncio.to_thread(server.engine.stop, 1 if failure else _STOP_SECONDS):
        leave(status)
    return status


async def _watch_engine(server: Server, stop: Stop) -> None:
    """Load the model, say that it is there, and end the server if the engine ever fails."""
    path = server.settings.model
    with ProgressBar(f"loading {Path(path).name}") as bar:
        server.engine.start(on_progress=bar.update)
        ready = await asyncio.to_thread(server.engine.wait_ready)
    try:
        if ready:
            await asyncio.to_thread(lambda: server.chat_template)
    except TemplateFailed as error:
        server.unusable = str(error)
    if ready and not server.unusable:
        log.info("model loaded")
        scheme = "https" if server.settings.ssl_file_key else "http"
        log.info(
            f"server is listening on {scheme}://{server.settings.hostname}:{server.settings.port}"
        )
        await watch_engine(server)
    stop.now()


def _listen(settings: Settings) -> socket.socket:
    """A bound socket, so that a port in use is known before the model is loaded."""
    if settings.hostname.endswith(".sock"):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(settings.hostname)
        return listener
    family, kind, _, _, address = socket.getaddrinfo(
        settings.hostname, settings.port, type=socket.SOCK_STREAM
    )[0]
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)
    return listener


def _refuse(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
