"""What llama-server wrote under grammars, schemas, triggers and budgets, from our own logits."""

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
from generated.options import Settings
from generated.requests.completion import CompletionRequest, read_completion
from handlers.completion import sampling_params
from handlers.grammars import begins_in_prompt
from handlers.reading import CompletionReading
from tests.made_models import write

RECORDED = json.loads((Path(__file__).parent / "data/grammar/replies.json").read_text())
CASES = RECORDED["cases"]
TOGETHER = 64  # sequences that are evaluated at once
FAILED = "got exception: "


class Made:
    """The made model: what it would say next anywhere in the recorded texts."""

    def __init__(self, path: Path) -> None:
        write("llama", path)
        self.tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata)
        self._model = load_model(path, weights="float32").model
        self._batches: dict[int, Any] = {}

    def logits(self, number: int) -> Any:
        """float32 [tokens, n_vocab] before each token of case `number`, and after the last."""
        batch, row = divmod(number, TOGETHER)
        if batch not in self._batches:
            cases = CASES[batch * TOGETHER :][:TOGETHER]
            rows = [[*prompt_of(case), *case.get("tokens", ())] for case in cases]
            width = max(map(len, rows))
            padded = mx.array([row + [0] * (width - len(row)) for row in rows])
            self._batches[batch] = np.array(self._model(padded).astype(mx.float32))
        start = len(prompt_of(CASES[number])) - 1
        return self._batches[batch][row, start:]

    def read(self, body: dict[str, Any]) -> CompletionRequest:
        settings = Settings()
        return read_completion(body, settings, CompletionReading(self.tokenizer, settings))

    def sampler(self, body: dict[str, Any], request: CompletionRequest) -> Sampler:
        begins = begins_in_prompt(body, by_default=False)
        params = sampling_params(request, grammar_begins_in_prompt=begins)
        end = self.tokenizer.text_to_token("<|endoftext|>")
        return Sampler(params, self.tokenizer.n_tokens, self.tokenizer, end_token=end)


def prompt_of(case: dict[str, Any]) -> list[int]:
    """The token ids a case began with."""
    tokens: list[int] = RECORDED["prompts"][case["body"]["prompt"]]
    return tokens


def label(case: dict[str, Any]) -> str:
    """A case's request, without what all of them say."""
    body = {k: v for k, v in case["body"].items() if k not in ("prompt", "seed", "n_predict")}
    return json.dumps(body, separators=(",", ":"))[:90]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made") / "llama.gguf")


@pytest.mark.parametrize("number", range(len(CASES)), ids=map(label, CASES))
def test_same_answer(made: Made, number: int) -> None:
    case = CASES[number]
    try:
        request = made.read(case["body"])
    except ValueError as error:
        assert {"error": str(error)} == {k: v for k, v in case.items() if k != "body"}
        return
    if "settings" in case:
        shown = ("grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens")
        values = {key: getattr(request, key) for key in shown}
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v}
        assert values == case["settings"]
    try:
        sampler = made.sampler(case["body"], request)
    except ValueError as error:
        assert f"Failed to initialize samplers: {error}" == case.get("error")
        return
    follow(made, number, sampler)


def follow(made: Made, number: int, sampler: Sampler) -> None:
    """Sample along the recorded tokens, up to the failure if one was recorded."""
    case = CASES[number]
    sampler.prime(prompt_of(case))
    chosen, probs = [], []
    rows = made.logits(number)
    for row in rows[: len(case["tokens"])]:
        chosen.append(sampler.sample(row))
        sampler.accept(chosen[-1])
        if "probs" in case:
            probs.append(sampler.probs())
        if chosen != case["tokens"][: len(chosen)]:
            break
    assert chosen == case["tokens"]
    if "content" in case:
        kept = case["settings"].get("preserved_tokens", ())
        pieces = [made.tokenizer.piece(token, special=token in kept) for token in chosen]
        assert b"".join(pieces).decode() == case["content"]
    if case.get("error", "").startswith(f"{FAILED}Unexpected empty grammar stack"):
        with pytest.raises(ValueError) as failed:
            sampler.accept(sampler.sample(rows[len(chosen)]))
        assert FAILED + str(failed.value) == case["error"]
    shown = float if case["body"].get("post_sampling_probs") else logprob
    for ours, (_, prob, top) in zip(probs, case.get("probs", ()), strict=True):
        assert [token for token, _ in ours.top] == [token for token, _ in top]
        assert [shown(p) for _, p in ours.top] == pytest.approx([p for _, p in top], abs=1e-4)
        assert shown(ours.prob) == pytest.approx(prob, abs=1e-4)


def logprob(p: float) -> float:
    """As the reference shows it: zero has float32's lowest value."""
    return float(np.log(np.float32(p)) if p > 0 else np.finfo(np.float32).min)
