"""Every architecture against recorded answers of the reference: greedy tokens, logprobs, meta."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.loading import LoadedModel, RopeOptions, load_model
from tests.made_models import write
from tests.record_loading import CASES, RECORDS

# llama.cpp looks GELU up in a table of half floats, so models with it are that much less exact.
TOLERANCE = {"gemma": 5e-3, "gemma2": 5e-3, "gemma3": 5e-3, "starcoder2": 5e-3}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that writes a made model once and returns its path."""
    folder = tmp_path_factory.mktemp("models")

    def path_of(name: str) -> Path:
        path = folder / f"{name}.gguf"
        if not path.exists():
            write(name, path)
        return path

    return path_of


def greedy(
    loaded: LoadedModel, prompt: list[int], n_tokens: int
) -> tuple[list[int], list[float], float]:
    """The tokens that follow, their logprobs, and by how much each led the second best at least."""
    from mlx_lm.models.cache import make_prompt_cache

    caches = make_prompt_cache(loaded.model)
    inputs, tokens, logprobs, lead = prompt, [], [], np.inf
    while len(tokens) < n_tokens:
        logits = loaded.model(mx.array([inputs]), cache=caches)[0, -1]
        row = np.array(logits - mx.logsumexp(logits), np.float64)
        best = int(row.argmax())
        lead = min(lead, row[best] - np.partition(row, -2)[-2])
        tokens.append(best)
        logprobs.append(row[best])
        inputs = [best]
    return tokens, logprobs, lead


@pytest.mark.parametrize("name", CASES)
def test_same_as_the_reference(name: str, made: Any) -> None:
    case = CASES[name]
    options = dict(case.options)
    n_ctx = options.pop("n_ctx", None)
    loaded = load_model(made(case.model), n_ctx=n_ctx, rope=RopeOptions(**options))
    recorded = json.loads((RECORDS / f"{name}.json").read_text())
    tolerance = TOLERANCE.get(case.model, 1e-4)
    for text in recorded["texts"]:
        tokens, logprobs, lead = greedy(loaded, text["prompt"], len(text["tokens"]))
        assert lead > tolerance, "the made model leaves too much to arithmetic"
        assert tokens == text["tokens"]
        np.testing.assert_allclose(logprobs, text["logprobs"], atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_described_as_the_reference_does(name: str, made: Any) -> None:
    loaded = load_model(made(CASES[name].model))
    meta = json.loads((RECORDS / f"{name}.json").read_text())["meta"]
    ours = {
        "vocab_type": bool(loaded.vocab_type),
        "n_vocab": loaded.n_vocab,
        "n_ctx": meta["n_ctx"],
        "n_ctx_train": loaded.n_ctx_train,
        "n_embd": loaded.n_embd,
        "n_params": loaded.n_params,
        "size": loaded.size_bytes,
        "ftype": loaded.ftype,
    }
    assert ours == meta
