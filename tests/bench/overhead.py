"""What serving over HTTP costs beside the engine alone: the same tasks, batching and sampling.

`report` asks it of the real model, where the goals are; `report_cost` of a made model that takes
next to no time, so that what is left is the cost of serving itself, in milliseconds a token.
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from codegen.capture.server import RunningServer, model_file
from tests.bench.load import run_streams, speed
from tests.bench.own_process import OwnProcess, own_process
from tests.bench.results import OURS, Goal, Report, figures, median_ratio
from tests.bench.servers import completion, ours, short_prompt

_GOALS = {1: 3.0, 8: 5.0}
_N_PREDICT = 64
_COST_STREAMS = (1, 4, 8, 16)
_COST_N_PREDICT = 100
_COST_LIMIT = 1.0
_ALONE = "engine alone"
_PATH = "/v1/completions"

Measured = dict[tuple[str, str], list[float]]


def report(rounds: int) -> Report:
    """The real model's decode speed, served and in process, in turn."""
    measured = _measure("smollm2", tuple(_GOALS), _N_PREDICT, rounds)[0]
    return Report(
        part="overhead",
        title=f"Decoding over HTTP beside the engine alone, SmolLM2-135M, {rounds} rounds",
        unit="tokens/s",
        figures=figures(measured),
        goals=tuple(_goal(n, limit, measured) for n, limit in _GOALS.items()),
    )


def report_cost(rounds: int) -> Report:
    """Milliseconds a token where the model costs little."""
    measured, cpu = _measure("made:llama", _COST_STREAMS, _COST_N_PREDICT, rounds)
    milliseconds = {key: [1e3 / value for value in values] for key, values in measured.items()}
    most = max(_COST_STREAMS)
    goal = Goal(
        f"served, {most} streams: a token",
        statistics.median(milliseconds[_where(most), OURS]),
        _COST_LIMIT,
        unit="ms",
    )
    return Report(
        part="cost",
        title=f"A token's cost with a made model, {rounds} rounds",
        unit="ms a token",
        figures=(*figures(milliseconds), *figures(cpu)),
        goals=(goal,),
        note="The engine alone has the made model's own time in it. The processor's time is"
        " the server's, by thread, where the system tells.",
    )


def _goal(n: int, limit: float, measured: Measured) -> Goal:
    ratio = median_ratio(measured[_where(n), OURS], measured[_where(n), _ALONE])
    return Goal(f"{_where(n)}: served slower by", 100 * (1 - ratio), limit, unit="%")


def _where(n_streams: int) -> str:
    return f"{n_streams} streams" if n_streams > 1 else "1 stream"


def _measure(
    model: str, counts: Sequence[int], n_predict: int, rounds: int
) -> tuple[Measured, Measured]:
    """Tokens a second of both, and milliseconds of each of the server's threads a token."""
    measured: Measured = {}
    cpu: Measured = {}
    slots = ("-np", str(max(counts)), "-c", str(max(counts) * 512))
    file = str(model_file(model).resolve())
    with own_process("without_http", "-m", file, *slots) as alone, ours(*slots, model=model) as our:
        alone.hear()
        for number in range(rounds + 1):
            for n_streams in counts:
                prompts = [short_prompt(number, n_streams, n) for n in range(n_streams)]
                # Who is first in a round takes turns.
                for name in (_ALONE, OURS)[:: 1 if number % 2 else -1]:
                    before = _thread_seconds(our)
                    value = (
                        _served(our, prompts, n_predict)
                        if name == OURS
                        else _in_process(alone, prompts, n_predict)
                    )
                    if not number:  # the first round warms up
                        continue
                    measured.setdefault((_where(n_streams), name), []).append(value)
                    if name == OURS:
                        spent = _spent(before, _thread_seconds(our))
                        for thread, seconds in spent.items():
                            each = 1e3 * seconds / (n_streams * n_predict)
                            cpu.setdefault((f"{_where(n_streams)}, processor", thread), []).append(
                                each
                            )
                    line = f"round {number}: {_where(n_streams)}, {name} {value:.1f}/s"
                    print(line, file=sys.stderr)
    return measured, cpu


def _served(server: RunningServer, prompts: Sequence[str], n_predict: int) -> float:
    bodies = [completion(prompt, n_predict) for prompt in prompts]
    streams = run_streams(server.port, _PATH, bodies)
    return speed([stream.moments() for stream in streams], n_predict)


def _in_process(process: OwnProcess, prompts: Sequence[str], n_predict: int) -> float:
    return float(process.ask({"prompts": prompts, "n_predict": n_predict})["speed"])


def _thread_seconds(server: RunningServer) -> dict[int, float]:
    """The processor's time of each thread, empty where the system doesn't tell (not Linux)."""
    threads: dict[int, float] = {}
    for path in Path(f"/proc/{server.process.pid}/task").glob("*/schedstat"):
        try:
            threads[int(path.parent.name)] = int(path.read_text().split()[0]) / 1e9
        except OSError:  # the thread has just ended
            continue
    return threads


def _spent(before: dict[int, float], after: dict[int, float]) -> dict[str, float]:
    """Seconds that passed for the event loop, which is the first thread, and for the others."""
    spent = {thread: after[thread] - before.get(thread, 0.0) for thread in after}
    if not spent:
        return {}
    loop = spent.pop(min(spent))
    return {"event loop": loop, "engine, MLX": sum(spent.values())}
