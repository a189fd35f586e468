"""Sorting candidates by falling logit, ties in the order the reference leaves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling.libstdcxx import partial_sort, sort

# Ties in larger groups than this keep the order they came in: replaying them in Python is slow.
REPLAYED = 2048

_HEAP_SELECTED = 128  # up to this many, the reference uses std::partial_sort, above it buckets
_BUCKETS, _LOW, _HIGH = 128, -10.0, 10.0

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]


def top_order(values: Floats, count: int) -> Indices:
    """Positions of the `count` highest `values`, falling, as llama.cpp's partial sort leaves them.

    Without ties that is the plain order. Ties are decided by replaying libstdc++'s heap
    selection or its sort within llama.cpp's 128 buckets between -10 and 10.
    """
    count = min(count, values.shape[0])
    if count <= _HEAP_SELECTED:
        best = _best(values, count)
        return partial_sort(-values, count) if _tied(values[best]) else best[:count]
    if values.max() * (_BUCKETS / (_HIGH - _LOW)) < 2.0**31 - _BUCKETS:
        best = _best(values, count)
        if not _tied(values[best]):
            return best[:count]
    return _bucket_sort(values, count)


def _best(values: Floats, count: int) -> Indices:
    """Positions of the `count` highest and the next one, if any; ties in the order they came."""
    among = _superset(values, count)
    picked = values if among is None else values[among]
    order = np.argsort(-picked)
    if _tied(picked[order[: count + 1]]):
        order = np.argsort(-picked, kind="stable")
    order = order[: count + 1]
    return order if among is None else among[order]


def _superset(values: Floats, count: int) -> Indices | None:
    """Positions holding at least the `count` + 1 highest values, in rising order; None for all.

    The (count + 1)-th highest maximum over columns can't exceed the (count + 1)-th highest value.
    """
    rows = values.shape[0] // max(4 * (count + 1), 512)
    if rows < 4:
        return None
    rows = min(rows, 64)
    columns = values.shape[0] // rows
    maxima = values[: rows * columns].reshape(rows, columns).max(axis=0)
    maxima = np.concatenate((maxima, values[rows * columns :]))
    least = np.partition(maxima, -(count + 1))[-(count + 1)]
    if least == -np.inf:
        return None
    return np.flatnonzero(values >= least)


def _tied(falling: Floats) -> bool:
    """Whether neighbours are equal; -inf is left out, since such candidates can't be told apart."""
    equal = falling[1:] == falling[:-1]
    return bool((equal & (falling[1:] != -np.inf)).any())


def _bucket_sort(values: Floats, count: int) -> Indices:
    """The reference's bucket sort; what doesn't fit an int32 falls into the lowest bucket."""
    scale = np.float32(_BUCKETS / (_HIGH - _LOW))
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (scale * values + np.float32(-_LOW) * scale).astype(np.float64)
    fits = np.abs(scaled) < 2.0**31
    bucket = np.clip(np.where(fits, scaled, -1.0).astype(np.int64), 0, _BUCKETS - 1)
    sizes = np.bincount(bucket, minlength=_BUCKETS)
    lowest = _BUCKETS - 1 - int(np.argmax(np.cumsum(sizes[::-1]) >= count))
    members = np.argsort(-bucket, kind="stable")
    parts: list[Indices] = []
    start = 0
    for index in range(_BUCKETS - 1, lowest - 1, -1):
        part = members[start : start + sizes[index]]
        keys = -values[part]
        wanted = min(count - start, len(part))
        order = np.argsort(keys, kind="stable")
        if len(part) <= REPLAYED and _tied(-keys[order]):
            order = sort(keys) if index > lowest else partial_sort(keys, wanted)
        parts.append(part[order[:wanted]])
        start += len(part)
    return np.concatenate(parts)
