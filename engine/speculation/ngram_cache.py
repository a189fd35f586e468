"""ngram-cache: counts what follows one to four tokens, in the slot's text and in files."""

from array import array
from dataclasses import dataclass, field
from pathlib import Path

from engine.speculation.ordered_counts import OrderedCounts
from engine.speculation.settings import CACHE_N_MAX

_LONGEST = 4
_STATIC = 2
"""The static file is asked for pairs only."""
_NONE = -1
_INT = 4

Ngram = tuple[int, ...]
Table = dict[Ngram, OrderedCounts]


class LookupFileError(ValueError):
    """A file of n-grams that can't be read: `str()` says why in one line."""


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a count must amount to, by the length of the n-gram, the shortest first."""

    least_seen: tuple[int, ...]
    least_percent: tuple[int, ...]


_LAX = _Demand((2, 2, 1, 1), (66, 50, 50, 50))
_STRICT = _Demand((4, 3, 2, 2), (75, 66, 66, 66))


@dataclass(slots=True)
class _Slot:
    n_tokens: int = 0
    """How many tokens of the text are counted."""
    table: Table = field(default_factory=dict)


class NgramCache:
    """A table for each slot, and two that were read from files; as llama-server's `lookup`."""

    def __init__(self, static: Table, dynamic: Table) -> None:
        """`dynamic` was counted in earlier answers, `static` in any texts."""
        self._static = static
        self._dynamic = dynamic
        self._slots: dict[int, _Slot] = {}

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """What was counted stays, whatever the slot holds now."""

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """At most eight tokens, one after the other, as long as the counts are clear enough."""
        slot = self._slots.setdefault(id_slot, _Slot())
        text = [*tokens, last]
        if slot.n_tokens < len(text):
            _count(slot.table, text[slot.n_tokens :])
            slot.n_tokens = len(text)
        if len(text) < _STATIC:
            return []
        length = len(text)
        while len(text) - length < CACHE_N_MAX:
            token = self._next(slot.table, text)
            if token is None:
                break
            text.append(token)
        return text[length:]

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """Nothing to learn."""

    def _next(self, table: Table, text: list[int]) -> int | None:
        last_two = _ngram(text, _STATIC)
        static = self._static.get(last_two)
        for counted, demand in ((table, _LAX), (self._dynamic, _STRICT)):
            token = _likeliest(counted, text, static, demand)
            if token is not None:
                return token
        return _of_static(static)


def read_lookup_file(path: str) -> Table:
    """The n-grams of a file as llama.cpp's lookup programs write them; raises LookupFileError."""
    table: Table = {}
    try:
        data = Path(path).read_bytes()
        if len(data) % _INT:
            raise ValueError
        numbers, at = array("i", data), 0
        while at < len(numbers):
            ngram, n_tokens = tuple(numbers[at : at + _LONGEST]), numbers[at + _LONGEST]
            at += _LONGEST + 1
            pairs = numbers[at : at + 2 * n_tokens]
            at += 2 * n_tokens
            if n_tokens <= 0 or len(pairs) < 2 * n_tokens or min(pairs[1::2]) <= 0:
                raise ValueError
            counts = OrderedCounts()
            for token, count in zip(pairs[::2], pairs[1::2], strict=True):
                counts.add(token, count)
            table[ngram] = counts
    except OSError as error:
        raise LookupFileError(f"couldn't read the lookup cache {path}: {error.strerror}") from None
    except (ValueError, IndexError):
        raise LookupFileError(f"{path} is no lookup cache") from None
    return table


def _count(table: Table, tokens: list[int]) -> None:
    """Count what follows every n-gram within `tokens`."""
    for size in range(1, _LONGEST + 1):
        for at in range(size, len(tokens)):
            ngram = _filled(tokens[at - size : at])
            table.setdefault(ngram, OrderedCounts()).add(tokens[at], 1)


def _likeliest(
    table: Table, text: list[int], static: OrderedCounts | None, demand: _Demand
) -> int | None:
    """By the longest n-gram whose counts are clear enough; the static ones weigh along."""
    for size in range(_LONGEST, 0, -1):
        counts = table.get(_ngram(text, size))
        if counts is None:
            continue
        best, best_count, best_weight, seen = _NONE, 0, 0, 0
        for token, count in counts.items():
            known = static.get(token) if static is not None else 0
            weight = 100 * known if known else 1
            if count * weight > best_count * best_weight:
                best, best_count, best_weight = token, count, weight
            seen += count
        clear = 100 * best_count >= demand.least_percent[size - 1] * seen
        if seen >= demand.least_seen[size - 1] and clear:
            return best
    return None


def _of_static(counts: OrderedCounts | None) -> int | None:
    if counts is None:
        return None
    best, best_count, seen = _NONE, 0, 0
    for token, count in counts.items():
        if count > best_count:
            best, best_count = token, count
        seen += count
    clear = 100 * best_count >= _LAX.least_percent[_STATIC - 1] * seen
    return best if seen >= _LAX.least_seen[_STATIC - 1] and clear else None


def _ngram(text: list[int], size: int) -> Ngram:
    """The last `size` tokens."""
    return _filled(text[max(0, len(text) - size) :])


def _filled(tokens: list[int]) -> Ngram:
    return (*tokens, *[_NONE] * (_LONGEST - len(tokens)))
