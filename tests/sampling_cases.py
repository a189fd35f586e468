"""Parameters and a vocabulary for the sampling tests."""

from dataclasses import fields
from typing import Any

import numpy as np

from engine.sampling import SamplingParams

# What llama-server takes for a request that says nothing.
DEFAULTS: dict[str, Any] = {
    "seed": 0xFFFFFFFF,
    "temperature": 0.8,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "typical_p": 1.0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 64,
    "dry_sequence_breakers": ["\n", ":", '"', "*"],
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "logit_bias": [],
    "ignore_eos": False,
    "n_probs": 0,
    "min_keep": 0,
    "grammar": "",
    "grammar_lazy": False,
    "samplers": [
        "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
    ],
    "post_sampling_probs": False,
    "backend_sampling": False,
}  # fmt: skip


def params(**changes: Any) -> SamplingParams:
    """The defaults with `changes`, both as `generation_settings` shows them."""
    values = DEFAULTS | changes
    values["grammar"] = values["grammar"] or None
    values["samplers"] = tuple(values["samplers"])
    values["dry_sequence_breakers"] = tuple(values["dry_sequence_breakers"])
    values["logit_bias"] = tuple(
        # JSON has no infinities: the reference shows the bias that bans a token as null.
        (entry["token"], -np.inf if entry["bias"] is None else entry["bias"])
        for entry in values["logit_bias"]
    )
    names = {field.name for field in fields(SamplingParams)}
    return SamplingParams(**{name: value for name, value in values.items() if name in names})


class Letters:
    """Token n is the n-th of some texts; the first ends a text."""

    def __init__(self, *texts: bytes) -> None:
        self.texts = texts

    def piece(self, token: int, *, special: bool) -> bytes:
        return self.texts[token]

    def is_eog(self, token: int) -> bool:
        return token == 0

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [self.texts.index(bytes([byte])) for byte in text.encode()]
