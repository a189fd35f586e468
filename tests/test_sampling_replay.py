"""The tokens and probabilities llama-server chose with the made model, from our own logits."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.gguf.file import read_gguf
from engine.loading import load_model
from engine.sampling import Sampler
from engine.tokenizer import Tokenizer
from tests.made_models import write
from tests.sampling_cases import params

RECORDED = json.loads((Path(__file__).parent / "data/sampling/replies.json").read_text())
ANSWERED = [case for case in RECORDED["cases"] if "tokens" in case]
REFUSED = [case for case in RECORDED["cases"] if "error" in case]
LONGEST = 64  # sequences that are evaluated together


class Made:
    """The made model: what it would say next anywhere in the recorded texts."""

    def __init__(self, path: Path) -> None:
        write("llama", path)
        self.tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata)
        self.n_vocab = self.tokenizer.n_tokens
        self._model = load_model(path, weights="float32").model
        self._rows = [self._sequence(case) for case in ANSWERED]
        self._batches: dict[int, Any] = {}

    def logits(self, number: int) -> Any:
        """float32 [tokens, n_vocab] before each token of case `number`."""
        batch, row = divmod(number, LONGEST)
        if batch not in self._batches:
            self._batches[batch] = self._evaluate(self._rows[batch * LONGEST :][:LONGEST])
        start = len(prompt_of(ANSWERED[number])) - 1
        return self._batches[batch][row, start : len(self._rows[number]) - 1]

    def _evaluate(self, rows: list[list[int]]) -> Any:
        width = max(map(len, rows))
        padded = mx.array([row + [0] * (width - len(row)) for row in rows])
        return np.array(self._model(padded).astype(mx.float32))

    def sampler(self, case: dict[str, Any], **changes: Any) -> Sampler:
        settings = RECORDED["defaults"] | case.get("settings", {}) | changes
        # Of the two tokens that could end a turn, the reference's hash map gives it this one.
        end = self.tokenizer.text_to_token("<|endoftext|>")
        return Sampler(params(**settings), self.n_vocab, self.tokenizer, end_token=end)

    @staticmethod
    def _sequence(case: dict[str, Any]) -> list[int]:
        return [*prompt_of(case), *case["tokens"]]


def prompt_of(case: dict[str, Any]) -> list[int]:
    """The token ids a case began with."""
    tokens: list[int] = RECORDED["prompts"][case["body"]["prompt"]]
    return tokens


def label(case: dict[str, Any]) -> str:
    """A case's request, without what all of them say."""
    body = {k: v for k, v in case["body"].items() if k not in ("prompt", "seed", "n_predict")}
    return json.dumps(body, separators=(",", ":"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made") / "llama.gguf")


def logprob(p: float) -> float:
    """As the reference shows it: zero has float32's lowest value."""
    return float(np.log(np.float32(p)) if p > 0 else np.finfo(np.float32).min)


@pytest.mark.parametrize("number", range(len(ANSWERED)), ids=map(label, ANSWERED))
def test_same_tokens_and_probabilities(made: Made, number: int) -> None:
    case = ANSWERED[number]
    sampler = made.sampler(case)
    sampler.prime(prompt_of(case))
    shown = float if case["body"].get("post_sampling_probs") else logprob
    chosen, probs = [], []
    for logits in made.logits(number):
        chosen.append(sampler.sample(logits))
        sampler.accept(chosen[-1])
        if "probs" in case:
            probs.append(sampler.probs())
        if chosen != case["tokens"][: len(chosen)]:
            break
    assert chosen == case["tokens"]
    for ours, (_, prob, top) in zip(probs, case.get("probs", ()), strict=True):
        assert [token for token, _ in ours.top] == [token for token, _ in top]
        assert [shown(p) for _, p in ours.top] == pytest.approx([p for _, p in top], abs=1e-4)
        assert shown(ours.prob) == pytest.approx(prob, abs=1e-4)


@pytest.mark.parametrize("case", REFUSED, ids=label)
def test_same_refusals(made: Made, case: dict[str, Any]) -> None:
    changes = {key: value for key, value in case["body"].items() if key in RECORDED["defaults"]}
    with pytest.raises(ValueError) as error:
        made.sampler(case, **changes)
    assert f"Failed to initialize samplers: {error.value}" == case["error"]
