"""Starts a server, the reference or this one, waits until it is ready, and stops it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codegen.capture.http import send
from codegen.capture.probes import Request, Setup

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache" / "capture"
_READY_SECONDS = 60.0
_STOP_SECONDS = 15.0


class ServerError(Exception):
    """A server that didn't start; `str()` ends with what it said last."""


@dataclass
class RunningServer:
    """A server process and the port that it listens on."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    health: Request
    """What is asked to see whether it is ready."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        """Return when /health answers 200; raises ServerError."""
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if send(self.port, self.health, timeout=5).status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise ServerError(f"the server didn't get ready:\n{self._last_words()}")

    def stop(self) -> None:
        """End the process, by force if it doesn't go."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])


def our_command() -> list[str]:
    """The command that starts this server."""
    return [sys.executable, "-m", "handlers.main"]


def start(command: Sequence[str], setup: Setup) -> RunningServer:
    """Start a server in the folder of models, so that replies name the model without a path."""
    CACHE.mkdir(parents=True, exist_ok=True)
    model = model_file(setup.model)
    port = _free_port()
    log = CACHE / f"server-{port}.log"
    arguments = ["-m", model.name, "--port", str(port), *setup.arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_")}
    environment["PYTHONPATH"] = str(ROOT)
    # A launcher that names the port in the environment can't know it before.
    environment |= {k: v.replace("{port}", str(port)) for k, v in setup.environment.items()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=model.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return RunningServer(process, port, log, Request("GET", f"{setup.prefix}/health"))


@contextmanager
def serving(command: Sequence[str], setup: Setup) -> Iterator[RunningServer]:
    """A ready server, stopped at the end; raises ServerError."""
    server = start(command, setup)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()
        if server.log.exists():
            server.log.unlink()


def model_file(model: str) -> Path:
    """A set-up's model: "made:NAME" is written on first use, "smollm2" is a package's."""
    name = model.removeprefix("made:")
    path = CACHE / f"{name}.gguf"
    if not path.exists():
        # Several processes may want it first: each puts a finished one in its place.
        unfinished = path.with_suffix(f".{os.getpid()}")
        if model == "smollm2":
            unfinished.symlink_to(_tests_say("smollm2"))
        else:
            _tests_say("made_models", name, str(unfinished))
        unfinished.replace(path)
    return path


def _tests_say(module: str, *arguments: str) -> str:
    """What a module of the tests prints."""
    command = [sys.executable, "-m", f"tests.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
