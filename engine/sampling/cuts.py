"""The steps that leave fewer candidates: top-k, top-p, min-p, typical, top-n-sigma, XTC."""

from __future__ import annotations

import numpy as np

from engine.sampling import estimate
from engine.sampling.candidates import Candidates, Floats, log, total
from engine.sampling.libstdcxx import sort, sort_all_equal
from engine.sampling.order import REPLAYED, top_order
from engine.sampling.rng import Mt19937
from engine.sampling.step import Step

_TOP_P_FIRST = 256  # how many of more than 1024 candidates top-p sorts before it sorts them all


class TopK(Step):
    """Keep the k highest logits; only built when k > 0."""

    def __init__(self, k: int) -> None:
        self._k = k

    def apply(self, candidates: Candidates) -> None:
        if candidates.sorted:
            candidates.keep_first(self._k)
        else:
            candidates.sort_top(self._k)


class TopP(Step):
    """Keep the likeliest candidates that together reach p, at least `min_keep`; p < 1."""

    def __init__(self, p: float, min_keep: int) -> None:
        self._p, self._min_keep = np.float32(p), min_keep

    def apply(self, candidates: Candidates) -> None:
        if candidates.sorted or candidates.size <= estimate.LONG:
            p = candidates.softmax()
            candidates.sort()
            kept = self._reached(p if candidates.p is None else candidates.p)
            if kept is not None:
                candidates.keep_first(kept)
        else:
            self._apply_to_many(candidates)

    def _apply_to_many(self, candidates: Candidates) -> None:
        """Sort only as many as it takes."""
        first = top_order(candidates.logits, _TOP_P_FIRST)
        rough = estimate.weights(candidates.logits, candidates.highest())
        least = max(self._min_keep, 1)
        kept = estimate.first_reaching(rough, rough[first], float(self._p), least)
        if kept is None:
            p = candidates.softmax()
            kept = self._reached(p[first])
        candidates.p = None
        if kept is not None:
            candidates.take(first[:kept])
            candidates.sorted = True
        else:
            candidates.sort()
            # How many it takes doesn't depend on the order of those that are alike.
            candidates.keep_first(self._reached(np.sort(p)[::-1]) or candidates.size)

    def _reached(self, p: Floats) -> int | None:
        """How many leading candidates it takes to reach p, or None if these aren't enough."""
        start = max(self._min_keep, 1) - 1
        enough = np.add.accumulate(p)[start:] >= self._p
        return start + int(enough.argmax()) + 1 if enough.any() else None


class MinP(Step):
    """Keep what is at least p times as likely as the likeliest, at least `min_keep`; p > 0."""

    def __init__(self, p: float, min_keep: int) -> None:
        self._log_p, self._min_keep = log(np.float32(p)), min_keep

    def apply(self, candidates: Candidates) -> None:
        if not candidates.sorted:
            lowest = max(candidates.logits.max(), np.finfo(np.float32).min)
            kept = np.flatnonzero(candidates.logits >= np.float32(lowest) + self._log_p)
            if len(kept) and len(kept) >= self._min_keep:
                candidates.take(kept)
                return
            candidates.sort()
        start = max(self._min_keep, 1)
        below = candidates.logits[start:] < candidates.logits[0] + self._log_p
        if below.any():
            candidates.keep_first(start + int(below.argmax()))


class Typical(Step):
    """Keep the candidates whose surprise is nearest the entropy until they exceed p; p < 1."""

    def __init__(self, p: float, min_keep: int) -> None:
        self._p, self._min_keep = np.float32(p), min_keep

    def apply(self, candidates: Candidates) -> None:
        candidates.sort()
        p = candidates.softmax()
        surprise = -log(p)
        entropy = total(p * surprise)
        order = self._order(np.abs(surprise - entropy))
        start = max(self._min_keep, 1) - 1
        enough = np.add.accumulate(p[order])[start:] > self._p
        if enough.any():
            order = order[: start + int(enough.argmax()) + 1]
        candidates.take(order)
        candidates.sorted = False

    @staticmethod
    def _order(scores: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        # One probability of zero makes every score NaN, and the reference sorts them all the same.
        if np.isnan(scores[0]):
            return sort_all_equal(len(scores))
        order = np.argsort(scores, kind="stable")
        falling = scores[order]
        if len(scores) <= REPLAYED and (falling[1:] == falling[:-1]).any():
            return sort(scores)
        return order


class TopNSigma(Step):
    """Rule out logits more than n standard deviations below the highest; n > 0."""

    def __init__(self, n: float) -> None:
        self._n = np.float32(n)

    def apply(self, candidates: Candidates) -> None:
        if candidates.size <= 1:
            return
        logits = candidates.logits
        finite = logits[logits != -np.inf]
        if not len(finite):
            return
        count = np.float32(len(finite))
        away = finite - total(finite) / count
        deviation = np.sqrt(_sum_of_squares(away) / count)
        out = logits < finite.max() - self._n * deviation
        candidates.replace_logits(np.where(out, np.float32(-np.inf), logits))


def _sum_of_squares(values: Floats) -> np.float32:
    """A float32 sum of squares taken in double, as C++ does for `acc += pow(float, 2)`.

    Exact for small rows; over many values squares are rounded first, for speed.
    """
    if len(values) > 1024:
        return total(values * values)
    result = np.float32(0)
    for square in (values.astype(np.float64) ** 2).tolist():
        result = np.float32(float(result) + square)
    return result


class Xtc(Step):
    """With a given chance, drop all but the least likely of those above a threshold."""

    def __init__(self, chance: float, threshold: float, min_keep: int, seed: int) -> None:
        self._chance, self._threshold = np.float32(chance), np.float32(threshold)
        self._min_keep, self._seed = min_keep, seed
        self._rng = Mt19937(seed)

    def apply(self, candidates: Candidates) -> None:
        if candidates.size < 2 or self._rng.single() > self._chance:
            return
        candidates.sort()
        below = ~(candidates.softmax() >= self._threshold)
        last = (int(below.argmax()) if below.any() else candidates.size) - 1
        if last > 0 and candidates.size - last >= self._min_keep:
            candidates.take(slice(last, None))

    def reset(self) -> None:
        self._rng = Mt19937(self._seed)
