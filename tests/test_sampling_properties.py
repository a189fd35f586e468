"""Random chains over random logits: what is picked is what a plain reading of them leaves."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampling import Sampler
from tests.sampling_cases import Letters, params

WORDS = Letters()
SLACK = 1e-4  # how much more a cut may leave than this plain arithmetic says

Rows = dict[int, float]

logit_rows = st.one_of(
    st.lists(st.integers(-160, 160), min_size=1, max_size=40),
    st.lists(st.integers(-3, 3), min_size=100, max_size=300),
).map(lambda values: [value / 16 for value in values])


def softmax(left: Rows) -> Rows:
    most = max(left.values())
    weights = {token: math.exp(logit - most) for token, logit in left.items()}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def ranked(left: Rows) -> list[int]:
    return sorted(left, key=lambda token: -left[token])


def among_equals(left: Rows, kept: list[int]) -> Rows:
    """The kept tokens and all as good as the worst of them: ties may be cut either way."""
    worst = min(left[token] for token in kept)
    return {token: logit for token, logit in left.items() if logit >= worst}


def top_k(left: Rows, p: Any) -> Rows:
    return among_equals(left, ranked(left)[: p.top_k]) if p.top_k > 0 else left


def top_p(left: Rows, p: Any) -> Rows:
    probabilities, kept, reached = softmax(left), [], 0.0
    for token in ranked(left):
        kept.append(token)
        reached += probabilities[token]
        if reached >= p.top_p + SLACK and len(kept) >= p.min_keep:
            break
    return among_equals(left, kept)


def min_p(left: Rows, p: Any) -> Rows:
    if p.min_p <= 0:
        return left
    most = max(left.values())
    kept = [t for t in left if left[t] >= most + math.log(p.min_p) - SLACK]
    return among_equals(left, kept if len(kept) >= p.min_keep else ranked(left)[: p.min_keep])


def top_n_sigma(left: Rows, p: Any) -> Rows:
    if p.top_n_sigma <= 0 or len(left) < 2:
        return left
    deviation = np.std(list(left.values()))
    least = max(left.values()) - p.top_n_sigma * deviation - SLACK
    return {token: logit for token, logit in left.items() if logit >= least}


def temperature(left: Rows, p: Any) -> Rows:
    if p.temperature <= 0:
        return {token: logit for token, logit in left.items() if logit == max(left.values())}
    return {token: logit / p.temperature for token, logit in left.items()}


PLAIN = {
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
    "top_n_sigma": top_n_sigma,
    "temperature": temperature,
}


@settings(max_examples=300, deadline=None)
@given(
    values=logit_rows,
    samplers=st.lists(st.sampled_from(sorted(PLAIN)), max_size=6),
    seed=st.integers(0, 2**32 - 2),
    changes=st.fixed_dictionaries(
        {
            "top_k": st.integers(-1, 200),
            "top_p": st.floats(0, 1),
            "min_p": st.floats(0, 1),
            # Ruling out without removing, as sigma does, changes what a later sigma is taken of.
            "top_n_sigma": st.sampled_from([-1.0, 0.25, 1.0, 2.0]),
            "temperature": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
            "min_keep": st.integers(0, 8),
        }
    ),
)
def test_picks_are_among_what_is_left(
    values: list[float], samplers: list[str], seed: int, changes: dict[str, Any]
) -> None:
    # Sigma and temperature 0 keep what they rule out, for `min_keep` to count: one reading each.
    if "top_n_sigma" in samplers or changes["temperature"] == 0:
        changes["min_keep"] = 0
    chosen = params(samplers=samplers, seed=seed, **changes)
    logits = np.array(values, dtype=np.float32)
    left: Rows = dict(enumerate(values))
    for name in chosen.samplers:
        left = PLAIN[name](left, chosen)
    sampler = Sampler(chosen, len(values), WORDS)
    assert sampler.sample(logits) in left
    assert sampler.sample(logits) in left


@settings(max_examples=100, deadline=None)
@given(values=logit_rows, typical_p=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_typical_picks_are_nearest_the_entropy(
    values: list[float], typical_p: float, seed: int
) -> None:
    probabilities = softmax(dict(enumerate(values)))
    entropy = -sum(p * math.log(p) for p in probabilities.values())
    away = {token: abs(-math.log(p) - entropy) for token, p in probabilities.items()}
    reached, farthest = 0.0, 0.0
    for token in sorted(away, key=lambda token: away[token]):
        reached, farthest = reached + probabilities[token], away[token]
        if reached > typical_p + SLACK:
            break
    chain = params(samplers=["typ_p"], typical_p=typical_p, seed=seed)
    picked = Sampler(chain, len(values), WORDS).sample(np.array(values, dtype=np.float32))
    assert away[picked] <= farthest + SLACK


@settings(max_examples=100, deadline=None)
@given(values=logit_rows, threshold=st.floats(0.01, 0.5), seed=st.integers(0, 99))
def test_xtc_leaves_one_of_the_likeliest(values: list[float], threshold: float, seed: int) -> None:
    probabilities = softmax(dict(enumerate(values)))
    above = sorted(p for p in probabilities.values() if p >= threshold + SLACK)
    chain = params(samplers=["xtc"], xtc_probability=1.0, xtc_threshold=threshold, seed=seed)
    picked = Sampler(chain, len(values), WORDS).sample(np.array(values, dtype=np.float32))
    assert not above or probabilities[picked] <= above[0] + SLACK


@settings(max_examples=100, deadline=None)
@given(values=logit_rows, seed=st.integers(0, 2**32 - 2), version=st.sampled_from([1, 2]))
def test_mirostat_repeats_itself(values: list[float], seed: int, version: int) -> None:
    logits = np.array(values, dtype=np.float32)
    runs = []
    for _ in range(2):
        sampler = Sampler(params(mirostat=version, seed=seed), len(values), WORDS)
        runs.append([sampler.sample(logits) for _ in range(4)])
    assert runs[0] == runs[1]
    assert set(runs[0]) <= set(range(len(values)))
