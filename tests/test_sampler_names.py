"""Samplers by the names and letters that clients give; the engine knows every one of them."""

import pytest

from engine.sampling import Sampler
from generated.samplers import BY_LETTER
from handlers.reading import samplers_by_letter, samplers_by_name
from tests.sampling_cases import Letters, params


def test_names_in_every_spelling() -> None:
    names = ["Top-K", "TOPP", "nucleus", "temp", "typ", "typ-p", "min_p", "topnsigma", "dry"]
    assert samplers_by_name(names) == (
        "top_k", "top_p", "top_p", "temperature", "typ_p", "typ_p", "min_p", "top_n_sigma", "dry",
    )  # fmt: skip
    assert samplers_by_name(["typical", "", "topk ", "temperature"]) == ("temperature",)


def test_letters() -> None:
    assert samplers_by_letter("".join(BY_LETTER)) == tuple(BY_LETTER.values())
    assert samplers_by_letter("kK?e") == ("top_k", "penalties")


def test_the_engine_knows_every_sampler() -> None:
    words = Letters(b"<eos>", *(bytes([byte]) for byte in b'\n:"*'))
    everything = {"dry_multiplier": 1.0, "typical_p": 0.5, "xtc_probability": 1.0, "seed": 1}
    for name in BY_LETTER.values():
        assert Sampler(params(samplers=[name], **everything), 5, words).seed_used == 1
    with pytest.raises(ValueError, match=r"^unknown sampler: nucleus$"):
        Sampler(params(samplers=["nucleus"]), 5, words)
