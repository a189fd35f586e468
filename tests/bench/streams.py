"""Several streams at once over HTTP: tokens a second of all together, beside other servers."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from codegen.capture.server import model_file
from tests.bench.load import run_streams, speed
from tests.bench.model_folder import write_folder
from tests.bench.results import FOLDER, OURS, Goal, Report, figures, median_ratio
from tests.bench.servers import completion, llama_server, mlx_lm_server, ours, short_prompt

_GOALS = {1: 1.5, 4: 3.5, 8: 6.0, 16: 9.0}
_N_PREDICT = 32
_MLX_LM = "mlx_lm.server"
_PATH = "/v1/completions"
_SLOTS = ("-np", "16", "-c", str(16 * 512))


def report(rounds: int, llama_server_path: str | None) -> Report:
    """Measure in rounds, everyone once with each number of streams."""
    folder = FOLDER / "smollm2-endless"
    write_folder(model_file("smollm2").resolve(), folder, endless=True)
    measured: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        ports = {OURS: stack.enter_context(ours(*_SLOTS)).port}
        ports[_MLX_LM] = stack.enter_context(mlx_lm_server(folder))
        if llama_server_path:
            server = stack.enter_context(llama_server(llama_server_path, *_SLOTS))
            ports["llama-server"] = server.port
        else:
            print("llama-server isn't measured: name it with --llama-server PATH", file=sys.stderr)
        for port in ports.values():
            _measure(port, max(_GOALS), "warm", n_predict=6)
        for number in range(1, rounds + 1):
            for n_streams in _GOALS:
                for name, port in ports.items():
                    value = _measure(port, n_streams, number)
                    measured.setdefault((_where(n_streams), name), []).append(value)
                    print(
                        f"round {number}: {_where(n_streams)}, {name} {value:.1f}/s",
                        file=sys.stderr,
                    )
    return Report(
        part="streams",
        title=f"Streams at once, SmolLM2-135M, {_N_PREDICT} tokens each, {rounds} rounds",
        unit="tokens/s",
        figures=figures(measured),
        goals=tuple(_goal(n, limit, measured) for n, limit in _GOALS.items()),
    )


def _measure(port: int, n_streams: int, key: object, n_predict: int = _N_PREDICT) -> float:
    prompts = [short_prompt(key, n_streams, n) for n in range(n_streams)]
    streams = run_streams(port, _PATH, [completion(prompt, n_predict) for prompt in prompts])
    return speed([stream.moments() for stream in streams], n_predict)


def _goal(n: int, limit: float, measured: dict[tuple[str, str], Sequence[float]]) -> Goal:
    ratio = median_ratio(measured[_where(n), OURS], measured[_where(n), _MLX_LM])
    return Goal(f"{_where(n)}: ours / {_MLX_LM}", ratio, limit, at_least=True)


def _where(n_streams: int) -> str:
    return f"{n_streams} streams" if n_streams > 1 else "1 stream"
