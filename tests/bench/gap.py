"""How long running streams pause while a long prompt is read.

A step of serving is one chunk of a prompt and then a token for each stream, so a stream pauses
for a chunk and a decode step; what would be wrong is a pause of several chunks. A chunk's time
grows with the tokens before it, and the longest pause comes with the deepest one. So the pause
is compared with the time of just that chunk, alone on an idle server: the same tokens are asked
for up to the chunk, then with it, and the time to the first token is what one chunk and one
decode step take, from which the step (the median pause of that very stream) is taken off. The
half of a chunk that the bound allows on top is for the streams' own step.
"""

import statistics
import sys
from itertools import pairwise

from engine.steps.prefill import prefill_chunk
from tests.bench.load import Client, ask
from tests.bench.results import OURS, Goal, Report, figures
from tests.bench.servers import completion, ours, short_prompt

_N_STREAMS = 8
_N_PROMPT = 2000
_N_UBATCH = 512
_LIMIT = 1.5
_PATH = "/v1/completions"


def report(rounds: int) -> Report:
    """Measure in rounds: the deepest chunk alone, then the pauses while a prompt is read."""
    chunk = prefill_chunk(_N_UBATCH)
    # A task's last token is left to the decode step.
    deepest = (_N_PROMPT - 1) // chunk * chunk
    alone, longest, quiet = [], [], []
    arguments = ("-np", str(_N_STREAMS + 1), "-c", str((_N_STREAMS + 1) * 2560))
    with ours(*arguments, "-ub", str(_N_UBATCH)) as server:
        for number in range(rounds + 1):
            seconds = _chunk_alone(server.port, number, deepest - chunk, chunk)
            gap, before = _longest_gaps(server.port, number, 40)
            print(
                f"round {number}: chunk {seconds * 1e3:.0f} ms, longest gap {gap * 1e3:.0f} ms",
                file=sys.stderr,
            )
            if number:  # the first round warms up
                alone.append(seconds)
                longest.append(gap)
                quiet.append(before)
    ratio = statistics.median(gap / seconds for gap, seconds in zip(longest, alone, strict=True))
    return Report(
        part="gap",
        title=f"Pauses of {_N_STREAMS} streams while a prompt of {_N_PROMPT} tokens is read",
        unit="ms",
        figures=figures(
            {
                (f"a chunk of {chunk} alone", OURS): [1e3 * s for s in alone],
                ("longest pause", OURS): [1e3 * s for s in longest],
                ("longest pause before", OURS): [1e3 * s for s in quiet],
            }
        ),
        goals=(Goal("longest pause / the deepest chunk alone", ratio, _LIMIT),),
    )


def _prompt(number: int, n_tokens: int) -> list[int]:
    """Tokens that no cache knows: each round has its own."""
    return [1000 + number, *((7 * i + 31 * number) % 1000 + 100 for i in range(n_tokens - 1))]


def _chunk_alone(port: int, number: int, before: int, chunk: int) -> float:
    prompt = _prompt(-1 - number, before + chunk + 1)
    ask(port, _PATH, completion(prompt[: before + 1], 1))
    moments = (stream := ask(port, _PATH, completion(prompt, 6))).moments()
    step = statistics.median(later - earlier for earlier, later in pairwise(moments))
    return stream.first_token - step


def _longest_gaps(port: int, number: int, n_predict: int) -> tuple[float, float]:
    """The longest pause of any stream while a prompt is read, and before it came."""
    with Client(port) as client:
        bodies = [completion(short_prompt(number, n), n_predict + 40) for n in range(_N_STREAMS)]
        streams = [client.post(_PATH, body) for body in bodies]
        client.take_until(lambda: all(len(stream.received) > 10 for stream in streams))
        long = client.post(_PATH, completion(_prompt(number, _N_PROMPT), 1))
        client.take_until(lambda: long.ended)
        all_moments = [stream.moments() for stream in streams]
        for stream in streams:
            client.drop(stream)
    start = max(moments[0] for moments in all_moments)
    read = long.moments()[0]
    return _longest(all_moments, long.sent, read), _longest(all_moments, start, long.sent)


def _longest(all_moments: list[list[float]], start: float, end: float) -> float:
    """The longest pause of one that reaches into this time."""
    return max(
        later - earlier
        for moments in all_moments
        for earlier, later in pairwise(moments)
        if later > start and earlier < end
    )
