"""Who is measured: each starts once, and gives one pair of figures for each round."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx

from tests.bench import servers
from tests.bench.own_process import OwnProcess, own_process

N_PROMPT = 256
N_PREDICT = 32


class Contestant(Protocol):
    """Gives tokens a second of prefill and decode, each time it is asked."""

    def measure(self, round_number: int) -> dict[str, float]: ...


class InProcess:
    """The bare model, in a process of its own."""

    def __init__(self, process: OwnProcess) -> None:
        self.process = process

    def measure(self, round_number: int) -> dict[str, float]:
        figures: dict[str, float] = self.process.ask(round_number)
        return figures


class Http:
    """A server that speaks OpenAI's text completions, timed by the client's clock."""

    def __init__(self, url: str) -> None:
        self.url = url

    def measure(self, round_number: int) -> dict[str, float]:
        prompt = prompt_text(round_number)
        body = {"model": "default_model", "prompt": prompt, "temperature": 0, "max_tokens": 1}
        start = time.perf_counter()
        reply = httpx.post(f"{self.url}/v1/completions", json=body, timeout=600).json()
        prefill = reply["usage"]["prompt_tokens"] / (time.perf_counter() - start)
        return {"prefill": prefill, "decode": self._decode()}

    def _decode(self) -> float:
        body = {
            "model": "default_model",
            "prompt": "Once upon a time, in a small village by the sea,",
            "temperature": 0,
            "max_tokens": N_PREDICT,
            "stream": True,
            "ignore_eos": True,
        }
        moments: list[float] = []
        url = f"{self.url}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=600) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: {") and json.loads(line[6:])["choices"][0].get("text"):
                    moments.append(time.perf_counter())
        return (len(moments) - 1) / (moments[-1] - moments[0])


def prompt_text(round_number: int) -> str:
    """About N_PROMPT tokens that no cache knows: each round has its own."""
    words = ["river", "stone", "garden", "window", "letter", "morning", "bridge", "silver"]
    at = round_number * 7919
    return " ".join(words[(at + i * i + i // 3) % len(words)] for i in range(N_PROMPT))


@contextmanager
def in_process(gguf: Path) -> Iterator[Contestant]:
    """The model called directly, with the BLAS and the weights that the server uses."""
    arguments = (str(gguf), str(N_PROMPT), str(N_PREDICT))
    with own_process("in_process", *arguments) as process:
        yield InProcess(process)


@contextmanager
def our_server() -> Iterator[Contestant]:
    """This server."""
    with servers.ours("-np", "1") as server:
        yield Http(server.url)


@contextmanager
def mlx_lm_server(folder: Path) -> Iterator[Contestant]:
    """mlx-lm's own server."""
    with servers.mlx_lm_server(folder) as port:
        yield Http(f"http://127.0.0.1:{port}")
