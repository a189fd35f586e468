"""Starts the servers that are measured; each gives the port it listens on."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from codegen.capture.probes import Setup
from codegen.capture.server import RunningServer, our_command, serving
from tests.bench.load import Json

_READY_SECONDS = 120
_WORDS = (
    "river", "stone", "garden", "window", "letter", "morning", "bridge", "silver",
    "harbour", "candle", "forest", "engine", "mirror", "island", "winter", "market",
)  # fmt: skip


@contextmanager
def ours(*arguments: str, model: str = "smollm2") -> Iterator[RunningServer]:
    """This server."""
    with serving(our_command(), Setup("bench", model, arguments)) as server:
        yield server


@contextmanager
def llama_server(path: str, *arguments: str) -> Iterator[RunningServer]:
    """The reference with its own defaults, on the same file."""
    with serving([path], Setup("bench", "smollm2", arguments)) as server:
        yield server


@contextmanager
def mlx_lm_server(folder: Path) -> Iterator[int]:
    """mlx-lm's own server, as `pip install mlx-lm` gives it."""
    port = _free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(folder)]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError("mlx_lm.server didn't start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def short_prompt(*key: object) -> str:
    """The beginning of a story, another one for each key."""
    return f"Story {' '.join(str(part) for part in key)}: Once upon a time, by the sea, there"


def long_text(n_words: int, *key: object) -> str:
    """So many words, another sequence for each key; most words are one token."""
    at = sum(ord(letter) * 31**n for n, letter in enumerate(repr(key))) % 99_991
    words = [_WORDS[(at + i * i + i // 3) % len(_WORDS)] for i in range(n_words)]
    return f"Words {' '.join(str(part) for part in key)}: {' '.join(words)}"


def completion(prompt: str | Sequence[int], n_predict: int, **more: object) -> Json:
    """A greedy stream of so many tokens, in OpenAI's words, which all contestants know.

    mlx_lm.server knows no `ignore_eos`: its folder names an end that the model never says.
    """
    return {
        "model": "default_model",
        "prompt": prompt,
        "max_tokens": n_predict,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        **more,
    }
