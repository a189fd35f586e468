"""What sampling costs a token, beside its goals: two vocabularies, a grammar, eight at once."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from engine.gguf.file import read_gguf
from engine.sampling import Sampler
from engine.tokenizer import Tokenizer
from generated.jsontext import Json
from handlers.json_schema import schema_to_grammar
from tests.sampling_cases import Letters, params
from tests.smollm2 import path

_ROUNDS = 300
_TOGETHER = 8
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 12}
_PERSON: Json = {
    "type": "object",
    "properties": {
        "name": _NAME,
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": _NAME, "minItems": 2, "maxItems": 4},
    },
    "required": ["name", "age", "tags"],
}
_WITHOUT_TOP_K = {
    "temperature alone": ["temperature"],
    "top-p, which keeps thousands of these rows": ["top_p", "temperature"],
    "min-p": ["min_p", "temperature"],
}
_ANSWER = json.dumps({"name": "Ada Lovelace", "age": 36, "tags": ["numbers", "engines"]})

Rows = list[np.ndarray]


def report() -> None:
    """Measure and print a table of medians."""
    print(f"{'sampling a token':44} {'median':>9}   goal")
    for n_vocab, goal in ((49_152, "0.35"), (151_936, "0.9")):
        rows = _rows(n_vocab)
        _line(f"default chain, vocabulary of {n_vocab}", _alone(rows), f"{goal} ms")
    for chain, samplers in _WITHOUT_TOP_K.items():
        _line(f"  {chain}", _alone(rows, samplers=samplers), "")
    added, added_by_refusals = _added_by_a_grammar()
    _line("added by a JSON schema, SmolLM2's vocabulary", statistics.median(added), "0.5 ms")
    _line("  the mean of these", statistics.mean(added), "")
    _line("  where the first choice doesn't fit", statistics.median(added_by_refusals), "")
    ratio = _together(_rows(49_152))
    print(f"{f'{_TOGETHER} samplers in turn against one':44} {ratio:7.2f} ×   {_TOGETHER} ×")


def _line(what: str, seconds: float, goal: str) -> None:
    print(f"{what:44} {seconds * 1e3:6.3f} ms   {goal}".rstrip())


def _rows(n_vocab: int) -> Rows:
    """Rows of logits as models give them: a bell, with a few tokens far above it."""
    rng = np.random.default_rng(n_vocab)
    rows = [rng.normal(0, 2, n_vocab).astype(np.float32) for _ in range(32)]
    for row in rows:
        row[rng.integers(0, n_vocab, 20)] += rng.uniform(4, 12, 20).astype(np.float32)
    return rows


def _step(sampler: Sampler, row: np.ndarray) -> None:
    sampler.accept(sampler.sample(row))


def _timed(do: Callable[..., object], *args: object) -> float:
    start = time.perf_counter()
    do(*args)
    return time.perf_counter() - start


def _alone(rows: Rows, **changes: Any) -> float:
    sampler = Sampler(params(seed=1, **changes), len(rows[0]), Letters())
    times = [_timed(_step, sampler, row) for row in _cycled(rows)]
    return statistics.median(times)


def _together(rows: Rows) -> float:
    """How much longer one token for each of eight takes than one for one."""
    samplers = [Sampler(params(seed=n), len(rows[0]), Letters()) for n in range(_TOGETHER)]

    def all_once(row: np.ndarray) -> None:
        for sampler in samplers:
            _step(sampler, row)

    one, all_ = [], []
    for row in _cycled(rows):
        one.append(_timed(_step, samplers[0], row))
        all_.append(_timed(all_once, row))
    return statistics.median(all_) / statistics.median(one)


def _cycled(rows: Rows) -> Iterator[np.ndarray]:
    return (rows[n % len(rows)] for n in range(_ROUNDS))


def _follow(sampler: Sampler, row: np.ndarray, token: int) -> None:
    """A step that goes on with a given token, whatever was chosen."""
    sampler.sample(row)
    sampler.accept(token)


def _added_by_a_grammar() -> tuple[list[float], list[float]]:
    """Every token's extra, and those of the one in five that the logits don't prefer."""
    tokenizer = Tokenizer.from_gguf(read_gguf(path()).metadata)
    n_vocab = tokenizer.n_tokens
    answer = tokenizer.encode(_ANSWER, add_special=False, parse_special=False)
    grammar = schema_to_grammar(_PERSON)
    rows = _rows(n_vocab)
    added, added_by_refusals = [], []
    for answers in range(_ROUNDS // len(answer) + 1):
        free = Sampler(params(seed=answers), n_vocab, tokenizer)
        bound = Sampler(params(seed=answers, grammar=grammar), n_vocab, tokenizer)
        for at, token in enumerate(answer):
            row = rows[(answers + at) % len(rows)].copy()
            if (answers + at) % 5:
                row[token] += 40
            alone = _timed(_follow, free, row, token)
            added.append(_timed(_follow, bound, row, token) - alone)
            if (answers + at) % 5 == 0:
                added_by_refusals.append(added[-1])
    return added, added_by_refusals
