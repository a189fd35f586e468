"""The steps that only change logits: biases, penalties, temperature."""

from __future__ import annotations

from collections import deque

import numpy as np

from engine.sampling.candidates import Candidates, log, power, total
from engine.sampling.step import Step


class LogitBias(Step):
    """Add a bias to some tokens; always the first step, so candidates stand in order of ids."""

    def __init__(self, biases: tuple[tuple[int, float], ...]) -> None:
        self._tokens = np.array([token for token, _ in biases], dtype=np.intp)
        self._biases = np.array([bias for _, bias in biases], dtype=np.float32)

    def apply(self, candidates: Candidates) -> None:
        np.add.at(candidates.writable_logits(), self._tokens, self._biases)


class Penalties(Step):
    """Repeat, frequency and presence penalties over the last n accepted tokens."""

    def __init__(
        self, n_vocab: int, last_n: int, repeat: float, frequency: float, presence: float
    ) -> None:
        self._counts = np.zeros(n_vocab, dtype=np.int32)
        self._last: deque[int] = deque()
        self._last_n = last_n
        self._repeat = np.float32(repeat)
        self._frequency, self._presence = np.float32(frequency), np.float32(presence)

    def accept(self, token: int) -> None:
        self._counts[token] += 1
        self._last.append(token)
        if len(self._last) > self._last_n:
            self._counts[self._last.popleft()] -= 1

    def apply(self, candidates: Candidates) -> None:
        if candidates.ids is None:
            seen = np.array(sorted(set(self._last)), dtype=np.intp)
            counts = self._counts[seen]
        else:
            counts = self._counts[candidates.ids]
            seen = np.flatnonzero(counts)
            counts = counts[seen]
        if len(seen):
            logits = candidates.writable_logits()
            old = logits[seen]
            new = np.where(old <= 0, old * self._repeat, old / self._repeat)
            logits[seen] = new - (counts.astype(np.float32) * self._frequency + self._presence)
        candidates.sorted = False

    def reset(self) -> None:
        self._counts.fill(0)
        self._last.clear()


class Temperature(Step):
    """Divide logits by a temperature; at 0 and below, rule out all but the highest."""

    def __init__(self, temperature: float) -> None:
        self._temperature = np.float32(temperature)

    def apply(self, candidates: Candidates) -> None:
        scale(candidates, self._temperature)


class DynamicTemperature(Step):
    """A temperature within `spread` of the given one, higher where entropy is; spread > 0."""

    def __init__(self, temperature: float, spread: float, exponent: float) -> None:
        middle, half = np.float32(temperature), np.float32(spread)
        self._lowest = max(np.float32(0), middle - half)
        self._highest = middle + half
        self._exponent = float(np.float32(exponent))

    def apply(self, candidates: Candidates) -> None:
        if candidates.size <= 1:
            return
        most = -log(np.float32(1) / np.float32(candidates.size))
        candidates.sort()
        p = candidates.softmax()
        p = p[p > 0]
        entropy = np.float32(0) - total(p * log(p))
        share = power(entropy / most, self._exponent)
        scale(candidates, self._lowest + (self._highest - self._lowest) * share)


def scale(candidates: Candidates, temperature: np.float32) -> None:
    """Divide the logits by `temperature`; if it isn't positive, only the first highest stays."""
    if temperature <= 0:
        logits = np.full_like(candidates.logits, -np.inf)
        highest = int(candidates.logits.argmax())
        logits[highest] = candidates.logits[highest]
        candidates.replace_logits(logits)
    else:
        candidates.replace_logits(candidates.logits / temperature)
