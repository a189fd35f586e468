"""The sampler chain's own rules: random numbers, order of ties, history, refusals."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.sampling import Sampler
from engine.sampling.dry import breakers, common_prefixes
from engine.sampling.libstdcxx import partial_sort, sort
from engine.sampling.order import top_order
from engine.sampling.rng import RANDOM_SEED, Mt19937
from generated.samplers import BY_LETTER
from tests.sampling_cases import Letters, params

SORTS = json.loads((Path(__file__).parent / "data/sampling/libstdcxx_sorts.json").read_text())
WORDS = Letters(b"<eos>", b"a", b"b", b"c", b"ab", b"cab", b"d")


def row(*logits: float) -> Any:
    return np.array(logits, dtype=np.float32)


def sampler(n_vocab: int = 4, **changes: Any) -> Sampler:
    return Sampler(params(**changes), n_vocab, WORDS)


# Random numbers: what libstdc++'s std::uniform_real_distribution gives, floats and doubles in turn.
@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        (0, [0.548813522, 0.71518936510962539, 0.844265759, 0.85794561998982988]),
        (42, [0.37454012, 0.95071431174793819, 0.183434784, 0.77969099761266125]),
        (2**31, [0.152002871, 0.82054275677894883, 0.360646963, 0.16225111712131143]),
        (2**32 - 2, [0.520666957, 0.52233124177480328, 0.947897494, 0.82893340139475558]),
    ],
)
def test_random_numbers(seed: int, drawn: list[float]) -> None:
    rng = Mt19937(seed)
    assert [rng.single(), rng.double(), rng.single(), rng.double()] == [
        pytest.approx(drawn[0], abs=1e-9),
        drawn[1],
        pytest.approx(drawn[2], abs=1e-9),
        drawn[3],
    ]


def test_a_seed_is_chosen_when_none_is_given() -> None:
    assert {sampler(seed=seed).seed_used for seed in (7, -4294967289)} == {7}
    chosen = sampler(seed=RANDOM_SEED)
    again = sampler(seed=chosen.seed_used)
    logits = np.zeros(4, dtype=np.float32)
    assert chosen.seed_used != sampler(seed=-1).seed_used
    assert [chosen.sample(logits) for _ in range(20)] == [again.sample(logits) for _ in range(20)]


# Order.
@pytest.mark.parametrize("case", range(len(SORTS)))
def test_ties_as_libstdcxx_leaves_them(case: int) -> None:
    values, full, first = SORTS[case]
    keys = -np.array(values, dtype=np.float32)
    assert sort(keys).tolist() == full
    assert partial_sort(keys, len(first)).tolist() == first


@pytest.mark.parametrize("count", [1, 40, 128, 129, 1000, 60000])
def test_the_highest_of_a_long_row(count: int) -> None:
    logits = np.random.default_rng(3).permutation(60000).astype(np.float32) / 4096 - 7
    assert top_order(logits, count).tolist() == np.argsort(-logits)[:count].tolist()


def test_the_highest_of_a_row_with_few_left() -> None:
    logits = np.full(60000, -np.inf, dtype=np.float32)
    logits[[59999, 7, 30000]] = row(1, 3, 2)
    assert top_order(logits, 40)[:3].tolist() == [7, 30000, 59999]
    assert set(logits[top_order(logits, 40)[3:]].tolist()) == {-math.inf}


def test_what_overflows_a_bucket_number_is_sorted_last() -> None:
    logits = np.arange(200, dtype=np.float32)
    logits[150] = 1e9
    falling = [index for index in range(199, -1, -1) if index != 150]
    assert top_order(logits, 200).tolist() == [*falling, 150]


# The chain.
def test_logits_are_only_read() -> None:
    logits = row(1, 2, 3, 2.5)
    logits.flags.writeable = False
    everything: dict[str, Any] = {
        "samplers": [name for name in BY_LETTER.values() if name != "infill"],
        "repeat_penalty": 1.2,
        "dry_multiplier": 1.0,
        "dry_allowed_length": 0,
        "top_n_sigma": 1.0,
        "typical_p": 0.9,
        "xtc_probability": 1.0,
        "adaptive_target": 0.5,
        "logit_bias": [{"token": 1, "bias": 1.0}],
    }
    for changes in (everything, {"mirostat": 1}, {"mirostat": 2}, {"temperature": 0.0}):
        chain = sampler(seed=1, **changes)
        chain.prime([1, 2, 1, 2])
        assert chain.sample(logits) in range(4)


def test_greedy_takes_the_first_of_equals() -> None:
    greedy = sampler(seed=5, samplers=["temperature"], temperature=0.0)
    assert greedy.sample(row(0, 1, 5, 2)) == 2
    assert greedy.sample(row(3, 3, 1, 3)) == 0


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({"samplers": ["temperature"], "temperature": 0.0}, 1),
        ({"samplers": ["top_k"], "top_k": 1}, 1),
        ({"samplers": ["top_k", "adaptive_p"], "top_k": 1}, 0),
        ({"mirostat": 2, "mirostat_tau": 0.0}, 0),
    ],
)
def test_draws_spent_where_nothing_is_left_to_choose(changes: dict[str, Any], drawn: int) -> None:
    chain, fresh = sampler(seed=9, **changes), Mt19937(9)
    assert chain.sample(row(1, 2, 3, 0)) == 2
    for _ in range(drawn):
        fresh.double()
    assert chain._steps[-1]._rng.double() == fresh.double()  # type: ignore[attr-defined]


def test_penalties_look_at_the_last_tokens_only() -> None:
    chain = sampler(samplers=["penalties"], seed=1, repeat_last_n=2, presence_penalty=1000.0)
    chain.prime([0, 1, 2])
    assert {chain.sample(row(0, 0, 0, -500)) for _ in range(5)} == {0}
    chain.accept(0)
    assert {chain.sample(row(0, 0, 0, -500)) for _ in range(5)} == {1}


def test_prime_starts_over() -> None:
    logits = np.linspace(0, 1, 4, dtype=np.float32)
    chain = sampler(seed=3, repeat_penalty=1.5, mirostat=2, adaptive_target=0.4)

    def run() -> list[int]:
        chain.prime([1, -1, 2])
        picked = []
        for _ in range(20):
            picked.append(chain.sample(logits))
            chain.accept(picked[-1])
        return picked

    assert run() == run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeat_penalty": 0.0}, "penalty_repeat must be finite and greater than 0"),
        ({"repeat_penalty": 1e-45}, "penalty_repeat must be finite and greater than 0"),
        ({"repeat_penalty": math.nan}, "penalty_repeat must be finite and greater than 0"),
        ({"frequency_penalty": math.inf}, "penalty_freq must be finite"),
        ({"presence_penalty": -1e39}, "penalty_present must be finite"),
        ({"samplers": ["top_q"]}, "unknown sampler: top_q"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        sampler(**changes)
    assert str(error.value) == message


def test_suppressed_tokens_are_never_chosen() -> None:
    chain = Sampler(params(seed=1, temperature=0.0), 4, WORDS, suppressed=(2, 3))
    assert chain.sample(row(0, 1, 9, 8)) == 1


def test_infill_ends_with_the_given_token() -> None:
    letters = Letters(b"<eos>", b"a", b"b", b"c", b"d", b"e", b"f")
    chain = Sampler(params(seed=1, samplers=["infill"]), 7, letters, end_token=6)
    assert chain.sample(row(-50, 0, 0, 0, 0, 0, 0)) == 6, "no text is likely enough"
    assert chain.sample(row(0, 0, 0, 0, 0, 0, 0)) == 0, "the end is as likely as any text"


def test_infill_joins_what_begins_alike() -> None:
    chain = Sampler(
        params(seed=1, samplers=["infill"], n_probs=5, post_sampling_probs=True), 7, WORDS
    )
    # "a" begins "ab" and "c" begins "cab": the likelier of each pair has the probability of both.
    chain.sample(np.log(row(1e-9, 0.1, 0.05, 0.4, 0.3, 0.1, 0.05)))
    top = dict(chain.probs().top)
    assert top == {3: pytest.approx(0.4 / 0.7), 4: pytest.approx(0.3 / 0.7), 0: top[0]}
    assert 0 < top[0] < 1e-8, "an end of the text is never joined nor left out"


# Probabilities.
def test_probabilities_before_sampling_ignore_the_chain() -> None:
    chain = sampler(seed=1, temperature=0.0, n_probs=2)
    chain.sample(np.log(row(1, 2, 4, 1)))
    probs = chain.probs()
    assert probs.prob == pytest.approx(0.5)
    assert probs.top == ((2, pytest.approx(0.5)), (1, pytest.approx(0.25)))


def test_probabilities_after_sampling() -> None:
    chain = sampler(seed=1, samplers=["top_k"], top_k=2, n_probs=9, post_sampling_probs=True)
    token = chain.sample(np.log(row(1, 1.5, 4, 1)))
    probs = chain.probs()
    expected = {2: 8 / 11, 1: 3 / 11}
    assert dict(probs.top) == pytest.approx(expected)
    assert probs.prob == pytest.approx(expected[token])
    greedy = sampler(seed=1, temperature=0.0, n_probs=9, post_sampling_probs=True)
    greedy.sample(row(0, 3, 1, 2))
    assert greedy.probs().top == ((1, 1.0),), "candidates that are ruled out aren't shown"


# DRY.
def test_common_prefixes() -> None:
    sequence = [1, 2, 1, 2, 1, 3, 1, 2]
    assert common_prefixes(sequence) == [8, 0, 3, 0, 1, 0, 2, 0]


def test_where_sequence_breakers_begin() -> None:
    assert breakers(WORDS, 7, ["ab", "", "d\0b"]) == {
        1: frozenset({(2,)}),
        4: frozenset({()}),
        5: frozenset({()}),
        6: frozenset({()}),
    }
    assert breakers(WORDS, 7, ["bca"]) == {
        2: frozenset({(3, 1)}),
        4: frozenset({(3, 1)}),
        5: frozenset({(3, 1)}),
    }


def test_dry_counts_from_the_last_breaker() -> None:
    def punished(breaker: str) -> bool:
        chain = Sampler(
            params(
                samplers=["dry", "top_k"],
                top_k=1,
                dry_multiplier=100.0,
                dry_allowed_length=2,
                dry_sequence_breakers=[breaker],
            ),
            7,
            WORDS,
        )
        chain.prime([1, 2, 3, 6, 1, 2])  # a b c d a b: c would repeat "a b c"
        return chain.sample(row(0, 0, 0, 5, 0, 0, 1)) != 3

    assert punished("d"), "the breaker before the repetition leaves it whole"
    assert not punished("a"), "only b comes after the breaker"
    assert not punished("c"), "a breaker itself is never punished"
