"""Whether memory grows, and how much more than weights and KV cache is needed.

Growth is looked at on a made model, through thousands of requests of all kinds: the resident
memory of the whole process, as the system counts it, since what would grow (events, caches,
connections) lives anywhere in it. The prompt cache gets a limit that the first requests fill,
and the server a pause before each look: that is when it gives back what it has freed.

The peak is looked at on the real model and taken from MLX: weights, caches and all temporaries
are MLX's, while the interpreter and its libraries are the same few hundred MiB with any model.
Resident memory is shown beside it: its peak, less what a server with the tiny model has.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from codegen.capture.server import RunningServer, model_file
from tests.bench.load import Client, Json, Stream, run_streams
from tests.bench.own_process import own_process
from tests.bench.results import OURS, Figure, Goal, Report
from tests.bench.servers import completion, long_text, ours, short_prompt

_MIB = 1 << 20
_N_REQUESTS, _SETTLED, _EVERY = 2000, 200, 100
_PAUSE = 1.5
_TOGETHER = 4
_N_STREAMS, _N_LONG, _N_PREDICT = 8, 2000, 32
_GROWTH_LIMIT, _PEAK_LIMIT = 2.0, 10.0
_SCHEMA: Json = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
_TEXT, _NATIVE, _CHAT = "/v1/completions", "/completion", "/v1/chat/completions"


def report(rounds: int) -> Report:
    """`rounds` times the requests one after the other."""
    curve, counts = _soak(rounds * _N_REQUESTS)
    settled = _around(curve, _SETTLED)
    growth = Goal(
        f"resident after {curve[-1][0]:.0f} requests over that after {_SETTLED}",
        _percent_over(_around(curve, curve[-1][0]), settled),
        _GROWTH_LIMIT,
        unit="%",
    )
    peaks, resident = _peaks()
    shown = "not told by this system" if resident is None else f"{resident:.1f} %"
    kinds = ", ".join(f"{status}: {n}" for status, n in sorted(counts.items()))
    return Report(
        part="soak",
        title=f"Memory over {rounds * _N_REQUESTS} mixed requests, and its peak",
        unit="MiB",
        figures=tuple(
            Figure(f"after {x:.0f}", OURS, (y,)) for x, y in curve if x % (5 * _EVERY) == 0
        ),
        goals=(
            growth,
            *(Goal(what, percent, _PEAK_LIMIT, unit="%") for what, percent in peaks.items()),
        ),
        note=f"Answers by status: {kinds}. The peak is of {_N_STREAMS} streams while a prompt of"
        f" {_N_LONG} tokens is read. Peak of resident memory over weights and KV, without"
        f" what a tiny model's server has: {shown}.",
        curve=tuple(curve),
        curve_axes=("requests", "MiB resident"),
    )


# Growth.


def _soak(n_requests: int) -> tuple[list[tuple[float, float]], dict[str, int]]:
    """Resident MiB after so many requests, and how the requests ended."""
    curve: list[tuple[float, float]] = []
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("-np", str(_TOGETHER), "-c", "4096", "--cache-ram", "4")
        arguments += ("--slot-save-path", folder)
        with ours(*arguments, model="made:llama") as server:
            for first in range(0, n_requests, _EVERY):
                curve.append((first, _resident_after_pause(server)))
                for at in range(first, first + _EVERY, _TOGETHER):
                    numbers = range(at, min(at + _TOGETHER, first + _EVERY))
                    for status in _send(server.port, numbers):
                        counts[status] = counts.get(status, 0) + 1
                if first % (5 * _EVERY) == 0:
                    line = f"{first} requests: {curve[-1][1]:.1f} MiB"
                    print(line, file=sys.stderr)
            curve.append((n_requests, _resident_after_pause(server)))
    return curve, counts


def _around(curve: list[tuple[float, float]], n_requests: float) -> float:
    """The median of the three looks nearest to so many requests: one alone is a per cent off."""
    nearest = sorted(curve[1:], key=lambda point: abs(point[0] - n_requests))[:3]
    return statistics.median(mib for _, mib in nearest)


def _resident_after_pause(server: RunningServer) -> float:
    time.sleep(_PAUSE)
    return resident_mib(server)


def _send(port: int, numbers: range) -> Iterator[str]:
    """Send these requests at once and see each to its end; gives their statuses."""
    with Client(port) as client:
        streams = {}
        for number in numbers:
            path, body, leaves = _request(number)
            streams[number] = (client.post(path, body), leaves)

        def all_done() -> bool:
            for stream, leaves in streams.values():
                if leaves and stream.received:
                    client.drop(stream)
            return all(stream.ended for stream, _ in streams.values())

        client.take_until(all_done)
    for stream, leaves in streams.values():
        yield "left" if leaves else str(_status(stream))


def _status(stream: Stream) -> int:
    return stream.status if stream.received else 0


def _request(n: int) -> tuple[str, Json, bool]:
    """The n-th request, its path, and whether the client leaves once the answer begins."""
    make = _KINDS[n % len(_KINDS)]
    path, body = make(n)
    return path, body, make is _cancelled


def _short(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": short_prompt(n), "n_predict": 8, "seed": n}


def _long(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": long_text(90, n), "n_predict": 8, "temperature": 0}


def _streamed(n: int) -> tuple[str, Json]:
    return _TEXT, completion(short_prompt(n), 24)


def _probabilities(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": short_prompt(n), "n_predict": 8, "n_probs": 5, "stream": True}


def _cancelled(n: int) -> tuple[str, Json]:
    return _TEXT, completion(short_prompt(n), 500)


def _wrong(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": short_prompt(n), "n_predict": -2 - n}


def _too_long(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": [100] * (2000 + n % 7), "n_predict": 1}


def _several(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": short_prompt(n), "n_predict": 8, "n_cmpl": 2, "seed": n}


def _schema(n: int) -> tuple[str, Json]:
    return _NATIVE, {"prompt": f"{n} as JSON:", "n_predict": 40, "json_schema": _SCHEMA, "seed": n}


def _grammar(n: int) -> tuple[str, Json]:
    rules = f'root ::= "{n}" [a-z ]+ "."'
    return _NATIVE, {"prompt": short_prompt(n), "n_predict": 12, "grammar": rules}


def _chat(n: int) -> tuple[str, Json]:
    messages = [{"role": "user", "content": short_prompt(n)}]
    return _CHAT, {"messages": messages, "max_tokens": 12, "stream": n % 2 == 0}


def _slot(action: str, n: int) -> tuple[str, Json]:
    return f"/slots/{n % _TOGETHER}?action={action}", {"filename": f"{n % _TOGETHER}.bin"}


_KINDS: list[Callable[[int], tuple[str, Json]]] = [
    _short, _streamed, _chat, _long, _cancelled, _wrong, _several, _schema, _streamed,
    partial(_slot, "save"), _grammar, _probabilities, _too_long, _chat,
    partial(_slot, "restore"), _short, _cancelled, partial(_slot, "erase"), _streamed,
]  # fmt: skip


def resident_mib(server: RunningServer) -> float:
    """The process's resident memory, as `ps` tells it."""
    command = ["ps", "-o", "rss=", "-p", str(server.process.pid)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024


# The peak.


def _peaks() -> tuple[dict[str, float], float | None]:
    """Percent that each of MLX's peaks is over what is held, and that of resident memory.

    The last is None where the system doesn't tell a process's peak (not Linux).
    """
    short = [short_prompt("peak", n) for n in range(_N_STREAMS)]
    prompts = [*short, [n % 1000 + 100 for n in range(_N_LONG)]]
    slots = ("-np", str(len(prompts)), "-c", str(len(prompts) * (_N_LONG + 512)))
    file = str(model_file("smollm2").resolve())
    with own_process("without_http", "-m", file, *slots) as alone:
        loaded = alone.hear()
        first = alone.ask({"prompts": short, "n_predict": 4})
        served = alone.ask({"prompts": prompts, "n_predict": _N_PREDICT})
    resident = None
    with ours(*slots, model="made:llama") as tiny, ours(*slots) as server:
        run_streams(tiny.port, _TEXT, [completion("Hello", _N_PREDICT)])
        run_streams(server.port, _TEXT, [completion(p, _N_PREDICT) for p in prompts])
        peak = _peak_mib(server)
        if peak is not None:
            resident = _percent_over((peak - resident_mib(tiny)) * _MIB, served["held"])
    peaks = {
        "loading: MLX's peak over weights": _percent_over(loaded["peak"], loaded["held"]),
        "first batch, tried out: over weights and KV": _percent_over(first["peak"], served["held"]),
        "serving: MLX's peak over weights and KV": _percent_over(served["peak"], served["held"]),
    }
    return peaks, resident


def _percent_over(value: float, base: float) -> float:
    return 100 * (value / base - 1)


def _peak_mib(server: RunningServer) -> float | None:
    """The most resident memory that the process ever had."""
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
