"""Starts a server whose model is shared by several processes, with `mlx.launch` or without."""

import json
import os
import random
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from codegen.capture.probes import Request
from codegen.capture.server import CACHE, ROOT, RunningServer, model_file, our_command

LAUNCHER = Path(sysconfig.get_path("scripts")) / "mlx.launch"


@contextmanager
def launched(*arguments: str) -> Iterator[RunningServer]:
    """A ready server of two processes under `mlx.launch`, which is ended by ending that."""
    with free_ports(3) as (port, first, _):
        pass
    launcher = [str(LAUNCHER), "-n", "2", "--backend", "ring", "--starting-port", str(first), "--"]
    server = _start(launcher, port, arguments, {})
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()
        server.log.unlink()


@contextmanager
def ranks(*arguments: str, folder: Path) -> Iterator[list[RunningServer]]:
    """Two processes by their ranks, started as `mlx.launch` would; rank 0 answers HTTP."""
    with free_ports(3) as (port, *others):
        pass
    hostfile = folder / "hosts.json"
    hostfile.write_text(json.dumps([[f"127.0.0.1:{other}"] for other in others]))
    with ExitStack() as stack:
        started = []
        for rank in range(len(others)):
            environment = {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hostfile)}
            server = _start([], port, arguments, environment, name=f"-{rank}")
            started.append(server)
            stack.callback(server.log.unlink)
            stack.callback(server.process.wait)
            stack.callback(server.process.kill)
        yield started


def said(server: RunningServer) -> list[str]:
    """The lines that a process ended with."""
    return [x for x in server.log.read_text().splitlines() if x.startswith("error: ")]


def _start(
    launcher: list[str],
    port: int,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    name: str = "",
) -> RunningServer:
    CACHE.mkdir(parents=True, exist_ok=True)
    path = model_file("made:llama")
    log = CACHE / f"together-{port}{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*launcher, *our_command(), "-m", path.name, "--port", str(port), *arguments],
            cwd=path.parent,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return RunningServer(process, port, log, Request("GET", "/health"))


@contextmanager
def free_ports(n: int) -> Iterator[range]:
    """So many free ports in a row, below those that the system gives to clients."""
    while True:
        first = random.SystemRandom().randrange(20000, 32000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + n):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            yield range(first, first + n)
            return
