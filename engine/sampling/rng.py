"""The random numbers llama.cpp draws: MT19937 read through libstdc++'s distributions."""

from __future__ import annotations

import math
import secrets

import numpy as np

RANDOM_SEED = 0xFFFFFFFF  # the seed that stands for "choose one"

_BELOW_ONE = math.nextafter(1.0, 0.0)
_BELOW_ONE_F32 = float(np.nextafter(np.float32(1), np.float32(0)))


class Mt19937:
    """A generator seeded with 32 bits; equal seeds give the reference's draws."""

    def __init__(self, seed: int) -> None:
        """Seed with the low 32 bits of `seed`; `RANDOM_SEED` chooses at random."""
        seed &= 0xFFFFFFFF
        self.seed = secrets.randbits(32) if seed == RANDOM_SEED else seed
        self._bits = np.random.MT19937(0)
        np.random.RandomState(self._bits).seed(self.seed)

    def double(self) -> float:
        """One uniform double in [0, 1); spends two 32-bit outputs, the low half first."""
        low, high = map(int, self._bits.random_raw(2))
        return min(float(low + (high << 32)) / 2.0**64, _BELOW_ONE)

    def single(self) -> float:
        """One uniform float32 in [0, 1); spends one 32-bit output."""
        return min(float(np.float32(self._bits.random_raw())) / 2.0**32, _BELOW_ONE_F32)
