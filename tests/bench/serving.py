"""Serving: a table of medians, their spread, and the ratios to this server."""

import json
import socket
import statistics
import sys
from contextlib import ExitStack

from codegen.capture.server import ROOT, model_file
from tests.bench.contestants import N_PREDICT, N_PROMPT, in_process, mlx_lm_server, our_server
from tests.bench.model_folder import write_folder

_OURS = "mlx-llama-server"
_CACHE = ROOT / ".cache" / "bench"


def report(rounds: int) -> None:
    """Measure in rounds, everyone once in each, and print."""
    gguf = model_file("smollm2").resolve()
    folder = _CACHE / "smollm2"
    write_folder(gguf, folder)
    figures: dict[str, list[dict[str, float]]] = {}
    with ExitStack() as stack:
        contestants = {
            _OURS: stack.enter_context(our_server()),
            "in process": stack.enter_context(in_process(gguf)),
            "mlx_lm.server": stack.enter_context(mlx_lm_server(folder, _free_port())),
        }
        for number in range(rounds + 1):
            for name, contestant in contestants.items():
                measured = contestant.measure(number)
                print(f"round {number} of {rounds}: {name} {_short(measured)}", file=sys.stderr)
                if number:  # the first round warms up
                    figures.setdefault(name, []).append(measured)
    (_CACHE / "bench.json").write_text(json.dumps(figures, indent=2))
    print(f"SmolLM2-135M, {N_PROMPT} tokens read, {N_PREDICT} written, one stream, {rounds} rounds")
    for what in ("decode", "prefill"):
        _table(what, {name: [f[what] for f in all_] for name, all_ in figures.items()})


def _short(figures: dict[str, float]) -> str:
    return ", ".join(f"{what} {value:.1f}/s" for what, value in figures.items())


def _table(what: str, figures: dict[str, list[float]]) -> None:
    ours = statistics.median(figures[_OURS])
    print(f"\n{what:18} median tokens/s   min – max          ours is")
    for name, values in figures.items():
        median = statistics.median(values)
        spread = f"{min(values):.1f} – {max(values):.1f}"
        print(f"{name:18} {median:15.1f}   {spread:17}  {ours / median:6.2f} ×")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
