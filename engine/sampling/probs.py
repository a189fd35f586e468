"""The probabilities a reply shows for a token and the best candidates beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.sampling.candidates import Candidates, Floats, exp, total
from engine.sampling.libstdcxx import partial_sort, sort
from engine.sampling.order import REPLAYED, top_order


@dataclass(frozen=True, slots=True)
class Probs:
    """A token's probability (1 if it is no candidate any more) and the likeliest (id, p) pairs."""

    prob: float
    top: tuple[tuple[int, float], ...]


def before_sampling(logits: Floats, token: int, count: int) -> Probs:
    """The softmax of the model's own logits (float32 [n_vocab]), before any sampler."""
    count = min(count, len(logits))
    weights = exp(logits - logits.max())
    p = weights / total(weights)
    # The reference sorts this row by std::partial_sort however many are asked for.
    best = top_order(logits, count)
    if count > 128 and (logits[best][1:] == logits[best][:-1]).any():
        best = partial_sort(-logits, count)
    return Probs(float(p[token]), _pairs(best, p[best]))


def after_sampling(candidates: Candidates, token: int, count: int) -> Probs:
    """What the chain left, with the probabilities its last step picked from; none that are 0."""
    p, ids = candidates.p, candidates.tokens()
    if p is None:
        return Probs(1.0, ())
    if not candidates.sorted:
        order = np.argsort(-p, kind="stable")
        falling = p[order]
        tied = (falling[1:] == falling[:-1]) & (falling[1:] > 0)
        if len(p) <= REPLAYED and tied.any():
            order = sort(-p)
        p, ids = p[order], ids[order]
    found = np.flatnonzero(ids == token)
    prob = float(p[found[0]]) if len(found) else 1.0
    p, ids = p[:count], ids[:count]
    zero = p == 0
    end = int(zero.argmax()) if zero.any() else len(p)
    return Probs(prob, _pairs(ids[:end], p[:end]))


def _pairs(ids: NDArray[np.intp], p: Floats) -> tuple[tuple[int, float], ...]:
    return tuple(zip(ids.tolist(), p.tolist(), strict=True))
