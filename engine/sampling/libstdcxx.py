"""Where libstdc++'s sorts put elements that compare equal.

`std::sort` and `std::partial_sort` aren't stable, and llama.cpp's order of tied candidates
decides which one a random number picks. Both are deterministic, so they can be replayed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_SMALL = 16  # std::sort leaves runs of this length to its final insertion sort

Keys = NDArray[np.float32]
Indices = NDArray[np.intp]


def sort(keys: Keys) -> Indices:
    """Positions in the order `std::sort` by rising key leaves them (NaN: all equal)."""
    values: list[float] = keys.tolist()
    order = list(range(len(values)))
    _quicksort(values, order)
    # The final insertion sort is stable, so any stable sort of what partitioning left will do.
    arranged = np.array(order, dtype=np.intp)
    return arranged[np.argsort(keys[arranged], kind="stable")]


@lru_cache(maxsize=16)
def sort_all_equal(count: int) -> Indices:
    """Positions as `std::sort` leaves `count` elements of which none is less than another."""
    order = sort(np.zeros(count, dtype=np.float32))
    order.flags.writeable = False
    return order


def partial_sort(keys: Keys, count: int) -> Indices:
    """Positions of the `count` lowest keys, rising, as `std::partial_sort` leaves them."""
    if count == 0:
        return np.empty(0, dtype=np.intp)
    if len(keys) > 1 and keys.min() == keys.max():
        return _heap_order_all_equal(count)
    return _partial_sort(keys, count)


@lru_cache(maxsize=64)
def _heap_order_all_equal(count: int) -> Indices:
    order = _partial_sort(np.zeros(count, dtype=np.float32), count)
    order.flags.writeable = False
    return order


def _partial_sort(keys: Keys, count: int) -> Indices:
    heap = list(range(count))
    key: dict[int, float] = dict(enumerate(keys[:count].tolist()))
    for parent in range((count - 2) // 2, -1, -1):
        _sift(key, heap, parent, count, heap[parent])
    start, end = count, len(keys)
    # Blocks as long as all before them, so that few elements get past the filter.
    while start < end:
        stop = min(2 * start, end)
        block = keys[start:stop]
        lower = np.flatnonzero(block < key[heap[0]])
        for index, value in zip((lower + start).tolist(), block[lower].tolist(), strict=True):
            if value < key[heap[0]]:
                key[index] = value
                _sift(key, heap, 0, count, index)
        start = stop
    for last in range(count - 1, 0, -1):
        moved = heap[last]
        heap[last] = heap[0]
        _sift(key, heap, 0, last, moved)
    return np.array(heap, dtype=np.intp)


def _sift(
    key: dict[int, float] | list[float], heap: list[int], hole: int, length: int, element: int
) -> None:
    """Fill `hole` with its larger child down to a leaf, then let `element` rise from there."""
    top = hole
    child = 2 * hole + 2
    while child < length:
        if key[heap[child]] < key[heap[child - 1]]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 2
    if child == length:  # a left child without a right one
        heap[hole] = heap[child - 1]
        hole = child - 1
    value = key[element]
    while hole > top:
        parent = (hole - 1) // 2
        if not key[heap[parent]] < value:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = element


def _quicksort(key: list[float], order: list[int]) -> None:
    """The partitioning half of introsort, depth limit and median of three included."""
    if not order:
        return
    pending = [(0, len(order), 2 * (len(order).bit_length() - 1))]
    while pending:
        first, last, depth = pending.pop()
        while last - first > _SMALL:
            if depth == 0:
                _heapsort(key, order, first, last)
                break
            depth -= 1
            cut = _partition(key, order, first, last)
            pending.append((cut, last, depth))
            last = cut


def _heapsort(key: list[float], order: list[int], first: int, last: int) -> None:
    """Sort a stretch as `std::partial_sort` over all of it does."""
    heap = order[first:last]
    count = len(heap)
    for parent in range((count - 2) // 2, -1, -1):
        _sift(key, heap, parent, count, heap[parent])
    for end in range(count - 1, 0, -1):
        moved = heap[end]
        heap[end] = heap[0]
        _sift(key, heap, 0, end, moved)
    order[first:last] = heap


def _partition(key: list[float], order: list[int], first: int, last: int) -> int:
    """Move the median of three to the front and partition the rest around it."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    ka, kb, kc = key[order[a]], key[order[b]], key[order[c]]
    if ka < kb:
        median = b if kb < kc else c if ka < kc else a
    else:
        median = a if ka < kc else c if kb < kc else b
    order[first], order[median] = order[median], order[first]
    pivot = key[order[first]]
    low, high = first + 1, last
    while True:
        while key[order[low]] < pivot:
            low += 1
        high -= 1
        while pivot < key[order[high]]:
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1
