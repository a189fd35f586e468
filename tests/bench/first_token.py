"""A long prompt asked again with a new turn: the time to the first token, also after a restart.

The first time is a cold one, on slots that hold nothing of the prompt. After the restart the
slot's file is restored before the clock runs; what that takes is shown beside.
"""

import sys
import tempfile
import time

import httpx

from tests.bench.load import ask
from tests.bench.results import OURS, Goal, Report, figures, median_ratio
from tests.bench.servers import completion, long_text, ours

_N_PROMPT = 1500
_LIMIT = 1 / 15
_PATH = "/v1/completions"
_COLD, _AGAIN, _RESTORED = "first time", "with a new turn", "restored after a restart"
_RESTORING = "restoring"


def report(rounds: int) -> Report:
    """Each round has a prompt and a pair of servers of its own."""
    measured: dict[tuple[str, str], list[float]] = {}
    for number in range(1, rounds + 1):
        times = _measure(number)
        shown = ", ".join(f"{what} {1e3 * seconds:.0f} ms" for what, seconds in times.items())
        print(f"round {number}: {shown}", file=sys.stderr)
        for what, seconds in times.items():
            measured.setdefault((what, OURS), []).append(1e3 * seconds)
    return Report(
        part="first_token",
        title=f"Time to the first token of a prompt of {_N_PROMPT} tokens, {rounds} rounds",
        unit="ms",
        figures=figures(measured),
        goals=tuple(
            Goal(
                f"{what} / {_COLD}",
                median_ratio(measured[what, OURS], measured[_COLD, OURS]),
                round(_LIMIT, 4),
            )
            for what in (_AGAIN, _RESTORED)
        ),
    )


def _measure(number: int) -> dict[str, float]:
    first = long_text(_N_PROMPT, number)
    turns = [f"{first}\nAnd then, {n}?\n" for n in range(2)]
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("-np", "1", "-c", str(2 * _N_PROMPT), "--slot-save-path", folder)
        with ours(*arguments) as server:
            ask(server.port, _PATH, completion("Hello", 4))
            times[_COLD] = ask(server.port, _PATH, completion(first, 4)).first_token
            times[_AGAIN] = ask(server.port, _PATH, completion(turns[0], 4)).first_token
            _slot(server.url, "save")
        with ours(*arguments) as server:
            start = time.perf_counter()
            _slot(server.url, "restore")
            times[_RESTORING] = time.perf_counter() - start
            times[_RESTORED] = ask(server.port, _PATH, completion(turns[1], 4)).first_token
    return times


def _slot(url: str, action: str) -> None:
    reply = httpx.post(
        f"{url}/slots/0", params={"action": action}, json={"filename": "slot.bin"}, timeout=60
    )
    reply.raise_for_status()
