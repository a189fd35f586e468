"""Speculative decoding: guesses what comes next, for the model to check several tokens at once.

Each kind of guessing is a `Drafter`; the kinds and their rules are llama-server's (`--spec-type`).
A guess never changes a text: a token is taken only where the model would have chosen it.
"""

from engine.speculation.settings import NgramSizes, SpeculationSettings
from engine.speculation.speculator import Speculator, make_speculator

__all__ = ["NgramSizes", "SpeculationSettings", "Speculator", "make_speculator"]
