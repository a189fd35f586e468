"""llama.cpp's sampler chain in numpy, on one row of logits: the same seed, the same text."""

from engine.sampling.params import SamplingParams
from engine.sampling.probs import Probs
from engine.sampling.sampler import Sampler
from engine.sampling.vocab import Vocab

__all__ = ["Probs", "Sampler", "SamplingParams", "Vocab"]
