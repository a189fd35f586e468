"""On long rows, what is decided by estimates is what exact arithmetic decides."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampling import estimate
from engine.sampling.candidates import Candidates, exp, total
from engine.sampling.cuts import TopP
from engine.sampling.order import top_order
from engine.sampling.pick import Dist

SEEDS = st.integers(0, 2**32 - 2)
SHAPES = ("bell", "peaks", "flat", "ties", "mostly ruled out", "one", "far apart")


def row(shape: str, seed: int) -> np.ndarray:
    """Logits, float32 [n] for an n between 1025 and 40000."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1025, 40_000))
    logits = rng.normal(0, 2, n)
    if shape == "peaks":
        logits[rng.integers(0, n, 12)] += rng.uniform(6, 20, 12)
    elif shape == "flat":
        logits /= 50
    elif shape == "ties":
        logits = np.round(logits * 4) / 4
    elif shape == "mostly ruled out":
        logits[rng.random(n) < 0.99] = -np.inf
        logits[0] = 1
    elif shape == "one":
        logits[rng.integers(0, n)] += 60
    elif shape == "far apart":
        logits *= 30
    return logits.astype(np.float32)


def in_order(logits: np.ndarray, count: int) -> np.ndarray:
    """The best of a row as the reference sorts the whole of it."""
    return top_order(logits, len(logits))[:count]


@settings(max_examples=120, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=SEEDS)
def test_the_same_token_is_picked(shape: str, seed: int) -> None:
    logits = row(shape, seed)
    shown, hidden = Dist(seed), Dist(seed, shown=False)
    for _ in range(4):
        exact, quick = Candidates(logits), Candidates(logits)
        shown.apply(exact)
        hidden.apply(quick)
        assert quick.selected == exact.selected


@settings(max_examples=120, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    seed=SEEDS,
    p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.9999]),
    min_keep=st.sampled_from([0, 3, 300]),
)
def test_top_p_keeps_the_same(shape: str, seed: int, p: float, min_keep: int) -> None:
    logits = row(shape, seed)
    candidates = Candidates(logits)
    TopP(p, min_keep).apply(candidates)
    weights = exp(logits - logits.max())
    order = in_order(logits, len(logits))
    running = np.add.accumulate((weights / total(weights))[order])
    enough = running >= np.float32(p)
    enough[: max(min_keep, 1) - 1] = False
    count = int(enough.argmax()) + 1 if enough.any() else len(logits)
    # Of the first 256 the reference sorts no more, which may leave ties otherwise.
    order = top_order(logits, 256) if count <= 256 else order
    assert candidates.tokens().tolist() == order[:count].tolist()


@settings(max_examples=120, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=SEEDS, start=st.integers(0, 9))
def test_sorted_candidates_are_those_of_the_reference(shape: str, seed: int, start: int) -> None:
    logits = row(shape, seed)
    order = in_order(logits, len(logits))
    candidates = Candidates(logits)
    candidates.sort()
    assert candidates.logits.tolist() == logits[order].tolist()
    assert [candidates.token(at) for at in range(start)] == order[:start].tolist()
    candidates.take(slice(start, None))
    candidates.take(np.arange(500, -1, -50))
    wanted = order[start:][500::-50]
    assert [candidates.token(at) for at in range(11)] == wanted.tolist()
    assert candidates.tokens().tolist() == wanted.tolist()
    assert candidates.logits.tolist() == logits[wanted].tolist()


def test_what_is_too_near_to_call_is_left_open() -> None:
    weights = np.ones(2048, dtype=np.float32)
    assert estimate.crossing(weights, 0.25, 1e-6) is None
    assert estimate.crossing(weights, 0.2503, 1e-6) == 512
    assert estimate.crossing(np.full(2048, np.inf, np.float32), 0.5, 1e-6) is None
    falling = np.ones(256, dtype=np.float32)
    assert estimate.first_reaching(weights, falling, 0.0625, 1) is None
    assert estimate.first_reaching(weights, falling, 0.0623, 1) == 128
    assert estimate.first_reaching(weights, falling, 0.0623, 200) == 200
    assert estimate.first_reaching(weights, falling, 0.5, 1) is None


def test_estimated_weights_are_within_the_bound() -> None:
    logits = np.linspace(-86, 0, 500_001).astype(np.float32)
    exact = np.exp(logits, dtype=np.float64)
    off = np.abs(estimate.weights(logits, np.float32(0)) / exact - 1)
    assert off.max() < estimate.EXP_ERROR / 2
