"""One stream: decode and prefill over HTTP, of the bare model and of another server."""

import sys
from contextlib import ExitStack

from codegen.capture.server import model_file
from tests.bench.contestants import N_PREDICT, N_PROMPT, in_process, mlx_lm_server, our_server
from tests.bench.model_folder import write_folder
from tests.bench.results import FOLDER, OURS, Report, figures


def report(rounds: int) -> Report:
    """Measure in rounds, everyone once in each."""
    gguf = model_file("smollm2").resolve()
    folder = FOLDER / "smollm2"
    write_folder(gguf, folder)
    measured: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        contestants = {
            OURS: stack.enter_context(our_server()),
            "in process": stack.enter_context(in_process(gguf)),
            "mlx_lm.server": stack.enter_context(mlx_lm_server(folder)),
        }
        for number in range(rounds + 1):
            for name, contestant in contestants.items():
                speeds = contestant.measure(number)
                print(f"round {number} of {rounds}: {name} {_short(speeds)}", file=sys.stderr)
                if number:  # the first round warms up
                    for what, value in speeds.items():
                        measured.setdefault((what, name), []).append(value)
    return Report(
        part="serving",
        title=f"SmolLM2-135M, {N_PROMPT} tokens read, {N_PREDICT} written, one stream",
        unit="tokens/s",
        figures=figures(dict(sorted(measured.items()))),
        note=f"{rounds} rounds; in process is the bare model, called without a server.",
    )


def _short(speeds: dict[str, float]) -> str:
    return ", ".join(f"{what} {value:.1f}/s" for what, value in speeds.items())
