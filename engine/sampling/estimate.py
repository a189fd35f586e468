"""Estimates with bounds, for long rows: what they decide for certain needs no exact arithmetic.

The reference adds up the weights of all candidates one after the other. Most outcomes don't
depend on how that was rounded; where one may, these functions say so by None.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LONG = 1024
"""Rows of no more candidates are quicker done exactly."""
EXP_ERROR = 2.0**-20
"""More than numpy's float32 exponential may be off, as a share: by less than three last places."""
EXACT_WEIGHTS_ERROR = 2.0**-32
"""More than what rounding makes of a float64 sum, as a share."""
_BLOCK = 256
_LEAST = 1e-30
"""Below, weights may be denormal, which have fewer places."""
_HALF_PLACE = 2.0**-24
"""The most that rounding changes a float32 by, as a share."""


def weights(logits: Floats, highest: np.float32) -> Floats:
    """e to the power of each logit less the highest, off by at most a share of `EXP_ERROR`."""
    powers: Floats = np.exp(logits - highest)
    return powers


def crossing(values: Floats, share: float, error: float) -> int | None:
    """Where the running sum of weights reaches a share of all; None if that isn't certain.

    The weights, or the sums of them, may be off by a share of `error` each.
    """
    starts = np.arange(0, len(values), _BLOCK)
    ends = np.add.accumulate(np.add.reduceat(values, starts, dtype=np.float64))
    whole = float(ends[-1])
    if not _LEAST < whole < np.inf:
        return None
    wanted = whole * share
    block = min(int(ends.searchsorted(wanted)), len(ends) - 1)
    start = block * _BLOCK
    before = float(ends[block - 1]) if block else 0.0
    running = before + np.add.accumulate(values[start : start + _BLOCK], dtype=np.float64)
    at = int(running.searchsorted(wanted))
    if at == len(running):
        return None
    slack = 2 * error * whole
    below = float(running[at - 1]) if at else before
    return start + at if below + slack < wanted < float(running[at]) - slack else None


def first_reaching(all_weights: Floats, falling: Floats, share: float, least: int) -> int | None:
    """How many of the highest weights it takes to reach a share; None if that isn't certain.

    `falling` are the highest of `all_weights`, both from `weights`; at least `least` are taken.
    The reference adds up float32 in the order of `all_weights`.
    """
    whole = float(all_weights.sum(dtype=np.float64))
    if not _LEAST < whole < np.inf:
        return None
    # Adding to a float32 sum is off by half of its last place at most, and by what is added.
    half_place = np.float32(1.1 * whole * _HALF_PLACE)
    off = float(np.minimum(all_weights, half_place).sum(dtype=np.float64)) + 2 * EXP_ERROR * whole
    if off >= whole:
        return None
    reached = np.add.accumulate(falling, dtype=np.float64)[least - 1 :]
    slack = 2 * EXP_ERROR + (len(falling) + 2) * _HALF_PLACE
    surely = reached * (1 - slack) >= share * (whole + off)
    maybe = reached * (1 + slack) >= share * (whole - off)
    if not surely.any() or surely.argmax() != maybe.argmax():
        return None
    return least + int(surely.argmax())
