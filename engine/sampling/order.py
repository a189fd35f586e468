"""Sorting candidates by falling logit, ties in the order the reference leaves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling.libstdcxx import partial_sort, sort

# std::sort is replayed for at most so many elements; more ties than that keep the order they had.
REPLAYED = 2048
# The same for a longer row, spent on its highest buckets: further down ties hardly ever matter.
_REPLAYED_OF_MANY = 1024

_HEAP_SELECTED = 128  # up to this many, the reference uses std::partial_sort, above it buckets
_BUCKETS, _LOW, _HIGH = 128, -10.0, 10.0
_SCALE = np.float32(_BUCKETS / (_HIGH - _LOW))

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]


def top_order(values: Floats, count: int) -> Indices:
    """Positions of the `count` highest `values`, falling, as llama.cpp's partial sort leaves them.

    Without ties that is the plain order. Ties are decided by replaying libstdc++'s heap
    selection, or its sorts within llama.cpp's 128 buckets between -10 and 10.
    """
    count = min(count, values.shape[0])
    if count > _HEAP_SELECTED:
        return _bucket_sort(values, count)
    best = falling_order(values, count)
    return partial_sort(-values, count) if _ties(values[best], len(values)).any() else best[:count]


def falling_order(values: Floats, count: int) -> Indices:
    """Positions of the `count` highest and the next one, if any; ties in the order they came."""
    among = _superset(values, count)
    picked = values if among is None else values[among]
    # Value and position in one integer: sorting those is faster than a stable argsort.
    keys = np.empty((len(picked), 2), np.uint32)
    bits = (picked + np.float32(0)).view(np.int32)
    keys[:, 0] = np.arange(len(bits), dtype=np.uint32)
    keys[:, 1] = (bits ^ (~(bits >> 31) & np.int32(0x7FFFFFFF))).view(np.uint32)
    keys.view("<u8")[:, 0].sort()
    order = keys[: count + 1, 0].astype(np.intp)
    return order if among is None else among[order]


def _superset(values: Floats, count: int) -> Indices | None:
    """Positions holding at least the `count` + 1 highest values, in rising order; None for all.

    The (count + 1)-th highest maximum over columns can't exceed the (count + 1)-th highest value.
    """
    if 2 * (count + 1) > values.shape[0] or values.shape[0] < 2048:
        return None
    rows = min(values.shape[0] // max(4 * (count + 1), 512), 64)
    among = values
    if rows >= 4:
        columns = values.shape[0] // rows
        among = values[: rows * columns].reshape(rows, columns).max(axis=0)
        among = np.concatenate((among, values[rows * columns :]))
    least = np.partition(among, -(count + 1))[-(count + 1)]
    if least > -np.inf:
        return np.flatnonzero(values >= least)
    possible, others = np.flatnonzero(values > -np.inf), np.flatnonzero(values == -np.inf)
    found = np.concatenate((possible, others[: max(count + 1 - len(possible), 0)]))
    return np.sort(found) if len(found) > count else None


def _ties(falling: Floats, of: int) -> NDArray[np.bool_]:
    """Which are equal to the next; in a long row not at -inf, where it hardly ever matters."""
    tied: NDArray[np.bool_] = falling[1:] == falling[:-1]
    return tied if of <= REPLAYED else tied & (falling[1:] != -np.inf)


def _bucket_sort(values: Floats, count: int) -> Indices:
    """The reference's sort for longer stretches; what overflows is in the lowest bucket."""
    if values.max() < 2.0**31 / _SCALE - 1:
        order = falling_order(values, count)
    else:
        order = np.lexsort((-values, -_bucket_of(values)))[: count + 1]
    tied = np.flatnonzero(_ties(values[order], len(values)))
    if not len(tied):
        return order[:count]
    bucket = _bucket_of(values)
    rising = -bucket[order]
    budget = REPLAYED if len(values) <= REPLAYED else _REPLAYED_OF_MANY
    lowest = -rising[count - 1]
    for index in (-np.unique(rising[tied])).tolist():
        members = np.flatnonzero(bucket == index)
        budget -= len(members)
        if index < lowest or budget < 0:
            break
        start = int(np.searchsorted(rising, -index))
        keys = -values[members]
        replay = sort(keys) if index > lowest else partial_sort(keys, count - start)
        order[start : start + len(replay)] = members[replay]
    return order[:count]


def _bucket_of(values: Floats) -> NDArray[np.int16]:
    """The reference's bucket of each value; numbers that no int32 holds are put into the first."""
    scaled = _SCALE * values + np.float32(-_LOW) * _SCALE
    fitting = np.where(scaled < np.float32(2**31), scaled, np.float32(0))
    return np.clip(fitting, np.float32(0), np.float32(_BUCKETS - 1)).astype(np.int16)
