"""Rows with their attention in one go: exact in any number, prompts in any pieces."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.loading import load_model
from engine.panels.native import available
from engine.running.batching import use_own_attention
from engine.running.row_step import row_step
from engine.running.runner import Runner
from tests.made_models import write

pytestmark = pytest.mark.skipif(not available(), reason="panels are for CPUs under Linux")

PROMPT = [3 + (7 * n) % 90 for n in range(600)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = Path(tmp_path_factory.mktemp("model")) / "made.gguf"
    write("llama", path)
    return load_model(path)


def after(runner: Runner, pieces: list[int], *, then: int = 5) -> Any:
    """Logits of one more token after the prompt, read in pieces that end at `pieces`."""
    cache = runner.new_cache()
    for start, end in zip([0, *pieces], [*pieces, len(PROMPT)], strict=True):
        runner.prefill(cache, PROMPT[start:end])
    return runner.decode([then], [cache])[0]


def test_any_number_of_rows_is_exact(loaded: Any) -> None:
    runner = Runner(loaded.model, loaded.n_vocab)
    assert runner.largest_batch(4, 16) == 16


def test_a_prompt_is_the_same_however_it_is_cut(loaded: Any) -> None:
    runner = Runner(loaded.model, loaded.n_vocab)
    whole = after(runner, [])
    for pieces in ([1], [256, 512], [17, 18, 300]):
        assert np.array_equal(after(runner, pieces), whole)


def test_a_prompt_is_what_the_model_makes_of_it(loaded: Any) -> None:
    runner = Runner(loaded.model, loaded.n_vocab)
    plain = loaded.model(mx.array([[*PROMPT, 5]]))[0, -1]
    np.testing.assert_allclose(after(runner, [256, 512]), np.array(plain), rtol=1e-3, atol=1e-3)


def test_a_copy_and_its_original_go_their_own_ways(loaded: Any) -> None:
    """Rows are written into the caches' own memory, which copies share at first."""
    runner = Runner(loaded.model, loaded.n_vocab)
    cache = runner.new_cache()
    runner.prefill(cache, PROMPT)
    twin = cache.copy()
    expected = {token: after(runner, [], then=token) for token in (5, 6, 7)}
    for one, token in ((cache, 5), (twin, 6)):
        assert np.array_equal(runner.decode([token], [one])[0], expected[token])
    # The original goes back and on with something else: the copy doesn't see it.
    cache.keep_first(300)
    runner.prefill(cache, [9] * 20)
    twin.keep_first(len(PROMPT))
    assert np.array_equal(runner.decode([7], [twin])[0], expected[7])


def test_attention_with_sinks_is_left_to_mlx(tmp_path: Path) -> None:
    write("gpt-oss", tmp_path / "made.gguf")
    model: Any = load_model(tmp_path / "made.gguf").model
    use_own_attention(model)
    runner = Runner(model, 100)
    assert row_step(model, lambda: runner.new_cache().layers) is None
