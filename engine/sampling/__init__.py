"""llama.cpp's sampler chain in numpy, on one row of logits: the same seed, the same text."""

from engine.sampling.names import (
    SAMPLER_CHARS,
    SAMPLER_NAMES,
    samplers_from_chars,
    samplers_from_names,
)
from engine.sampling.params import SamplingParams
from engine.sampling.probs import Probs
from engine.sampling.sampler import Sampler
from engine.sampling.vocab import Vocab

__all__ = [
    "SAMPLER_CHARS",
    "SAMPLER_NAMES",
    "Probs",
    "Sampler",
    "SamplingParams",
    "Vocab",
    "samplers_from_chars",
    "samplers_from_names",
]
