"""The steps that end a chain by choosing: from the distribution, Mirostat, adaptive-p."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling import estimate
from engine.sampling.candidates import Candidates, Floats, exp, log, log2, power, total
from engine.sampling.rng import Mt19937
from engine.sampling.step import Step

_MIROSTAT_M = 100  # how many candidates Mirostat 1 estimates the exponent from
_PEAK, _SHARPNESS = np.float32(5), np.float32(10)
_INVERSE_WIDTH = np.float32(1) / np.float32(0.3)


class Dist(Step):
    """Pick at random by probability; spends one double even on a single candidate."""

    def __init__(self, seed: int, *, shown: bool = True) -> None:
        """`shown` says that the probabilities are wanted too, not only the choice."""
        self._seed = seed
        self._shown = shown
        self._rng = Mt19937(seed)

    @property
    def seed_used(self) -> int:
        return self._rng.seed

    def apply(self, candidates: Candidates) -> None:
        u = self._rng.double()
        if candidates.size == 1:
            candidates.p = np.ones(1, dtype=np.float32)
            candidates.selected = 0
            return
        if not self._shown and candidates.size > estimate.LONG:
            candidates.p = None
            candidates.selected = _pick_from_many(candidates, u)
            return
        weights = exp(candidates.logits - candidates.highest())
        running = np.add.accumulate(weights.astype(np.float64))
        candidates.selected = _first_reaching(running, u)
        candidates.p = (weights / running[-1]).astype(np.float32)

    def reset(self) -> None:
        self._rng = Mt19937(self._seed)


def _pick_from_many(candidates: Candidates, u: float) -> int:
    """The same choice, with no more exactness than it takes to be certain."""
    highest = candidates.highest()
    rough = estimate.weights(candidates.logits, highest)
    picked = estimate.crossing(rough, u, estimate.EXP_ERROR)
    if picked is None:
        weights = exp(candidates.logits - highest)
        picked = estimate.crossing(weights, u, estimate.EXACT_WEIGHTS_ERROR)
        if picked is None:
            picked = _first_reaching(np.add.accumulate(weights.astype(np.float64)), u)
    return picked


def _first_reaching(running: NDArray[np.float64], u: float) -> int:
    """Where a running sum reaches a share of all."""
    last = len(running) - 1
    # Infinite logits make the sum NaN, and the reference then falls back to the last.
    return last if np.isnan(running[-1]) else min(int(running.searchsorted(running[-1] * u)), last)


class _Discrete(Dist):
    """Picks by `std::discrete_distribution`, which spends nothing on a single candidate."""

    def _pick(self, p: Floats) -> int:
        if len(p) < 2:
            return 0
        doubles = p.astype(np.float64)
        running = np.add.accumulate(doubles / np.add.accumulate(doubles)[-1])
        running[-1] = 1.0
        return int(running.searchsorted(self._rng.double()))


class Mirostat(_Discrete):
    """Mirostat 1: keep the k candidates that should give a surprise of tau; learns at rate eta."""

    def __init__(self, n_vocab: int, seed: int, tau: float, eta: float) -> None:
        super().__init__(seed)
        self._n_vocab = float(np.float32(n_vocab))
        self._tau, self._eta = np.float32(tau), np.float32(eta)
        self._mu = np.float32(2) * self._tau

    def apply(self, candidates: Candidates) -> None:
        candidates.sort()
        self._cut(candidates, candidates.softmax())
        p = candidates.softmax()
        candidates.selected = self._pick(p)
        error = -log2(p[candidates.selected]) - self._tau
        self._mu = self._mu - self._eta * error

    def reset(self) -> None:
        super().reset()
        self._mu = np.float32(2) * self._tau

    def _cut(self, candidates: Candidates, p: Floats) -> None:
        rank = np.arange(1, min(_MIROSTAT_M, len(p)), dtype=np.float32)
        t = log((rank + 1) / rank)
        b = log(p[: len(t)] / p[1 : len(t) + 1])
        exponent = total(t * b) / total(t * t)
        epsilon = exponent - np.float32(1)
        share = np.float32(1) - power(self._n_vocab, float(-epsilon))
        k = power(
            float(epsilon * power(2.0, float(self._mu)) / share), float(np.float32(1) / exponent)
        )
        # What no int32 holds converts to the lowest one in the reference.
        candidates.keep_first(max(int(k), 1) if abs(k) < 2.0**31 else 1)


class MirostatV2(Mirostat):
    """Mirostat 2: rule out candidates more surprising than mu."""

    def _cut(self, candidates: Candidates, p: Floats) -> None:
        surprising = -log2(p) > self._mu
        if surprising.any():
            candidates.keep_first(max(int(surprising.argmax()), 1))


class AdaptiveP(_Discrete):
    """Prefer candidates whose probability is near a target that follows what was picked."""

    def __init__(self, target: float, decay: float, seed: int) -> None:
        super().__init__(seed)
        self._target = np.float32(target)
        self._decay = np.clip(np.float32(decay), np.float32(0), np.float32(0.99))
        self._original: Floats = np.empty(0, dtype=np.float32)
        self._pending: tuple[int, int] | None = None
        self._sum = self._weight = np.float32(0)
        self._start()

    def apply(self, candidates: Candidates) -> None:
        p = candidates.softmax()
        if self._target >= 0:
            self._original = p
            logits = candidates.logits
            distance = np.abs((p - self._adapted()) * _INVERSE_WIDTH)
            near = _PEAK - _SHARPNESS * distance * distance / (np.float32(1) + distance)
            candidates.replace_logits(np.where(logits == -np.inf, logits, near))
            p = candidates.softmax()
        candidates.selected = self._pick(p)
        if self._target >= 0:
            self._pending = (candidates.token(candidates.selected), candidates.selected)

    def accept(self, token: int) -> None:
        if self._pending is not None and self._pending[0] == token:
            self._sum = self._original[self._pending[1]] + self._decay * self._sum
            self._weight = np.float32(1) + self._decay * self._weight
        self._pending = None

    def reset(self) -> None:
        super().reset()
        self._start()

    def _start(self) -> None:
        self._sum = self._target / (np.float32(1) - self._decay)
        self._weight = np.float32(1) / (np.float32(1) - self._decay)
        self._pending = None

    def _adapted(self) -> np.float32:
        target = min(self._target, np.float32(1))
        adapted = np.float32(2) * target - self._sum / self._weight
        return np.float32(np.clip(adapted, np.float32(0), np.float32(1)))
