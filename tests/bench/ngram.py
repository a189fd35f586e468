"""What guessing tokens from the text's own n-grams gains on a text that repeats itself."""

import sys

from tests.bench.load import Stream, ask
from tests.bench.results import OURS, Goal, Report, figures, median_ratio
from tests.bench.servers import completion, ours

_N_PREDICT = 128
_LIMIT = 1.5
_PATH = "/v1/completions"
_SPECULATION = ("--spec-type", "ngram-simple")
_WITH, _WITHOUT = "with ngram-simple", "without"
_VERSE = (
    "The wheels on the bus go round and round, round and round, round and round.\n"
    "The wheels on the bus go round and round, all through the town.\n"
)


def report(rounds: int) -> Report:
    """Both ways in each round, on two servers, the same prompt for both."""
    measured: dict[tuple[str, str], list[float]] = {}
    n_same = 0
    slot = ("-np", "1", "-c", "2048")
    with ours(*slot) as plain, ours(*slot, *_SPECULATION) as guessing:
        ports = {_WITHOUT: plain.port, _WITH: guessing.port}
        for number in range(rounds + 1):
            texts = set()
            for name, port in ports.items():
                prompt = f"Song {number}:\n{_VERSE * 5}"
                stream = ask(port, _PATH, completion(prompt, _N_PREDICT))
                texts.add(_text(stream))
                if number:  # the first round warms up
                    measured.setdefault((name, OURS), []).append(_speed(stream))
                    value = measured[name, OURS][-1]
                    print(f"round {number}: {name} {value:.1f}/s", file=sys.stderr)
            n_same += bool(number) and len(texts) == 1
    gain = median_ratio(measured[_WITH, OURS], measured[_WITHOUT, OURS])
    return Report(
        part="ngram",
        title=f"A text that repeats itself, {_N_PREDICT} tokens, {rounds} rounds",
        unit="tokens/s",
        figures=figures(measured),
        goals=(
            Goal("tokens/s with / without", gain, _LIMIT, at_least=True),
            Goal("rounds with the same text", n_same, rounds, unit="rounds", at_least=True),
        ),
    )


def _text(stream: Stream) -> str:
    return "".join(frame["choices"][0]["text"] for _, frame in stream.frames())


def _speed(stream: Stream) -> float:
    """Tokens a second from the first token on; several may come together."""
    moments = stream.moments()
    return (_N_PREDICT - 1) / (moments[-1] - moments[0])
