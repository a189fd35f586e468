"""ngram-map-k and ngram-map-k4v: n-grams of the text with what followed them, and how that went."""

from dataclasses import dataclass, field

from engine.speculation.search import find_last
from engine.speculation.settings import NgramSizes

_MOST_VALUES = 4
_MOST_COUNTED = 16380
_HASH_ENTRIES = 1 << 18
_HASH_FACTOR = 2654435761


class NgramMap:
    """A map for each slot, as llama-server's `common_ngram_map`."""

    def __init__(self, sizes: NgramSizes, *, key_only: bool) -> None:
        """With `key_only` (ngram-map-k) what followed last is drafted; else what did most often."""
        self._sizes = sizes
        self._key_only = key_only
        self._maps: dict[int, _Map] = {}

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """Forget what was known of text that isn't there any longer."""
        self._map(id_slot).begin(len(prompt))

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """At most `size_m` tokens, and no more than were right the last time."""
        return self._map(id_slot).draft(tokens, last)

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """Next time after the same n-gram only so many are drafted."""
        self._map(id_slot).accepted(n_accepted)

    def _map(self, id_slot: int) -> "_Map":
        return self._maps.setdefault(id_slot, _Map(self._sizes, self._key_only))


@dataclass(slots=True)
class _Value:
    """An m-gram that followed a key, by its place in the text."""

    at: int
    count: int
    n_accepted: int


@dataclass(slots=True)
class _Key:
    """An n-gram that came again, by a place where it stands in the text."""

    at: int
    looked_up_to: int = 0
    """Until there its values are counted."""
    count: int = 0
    values: list[_Value] = field(default_factory=list)


class _Map:
    def __init__(self, sizes: NgramSizes, key_only: bool) -> None:
        self._n = sizes.size_n
        self._m = sizes.size_m
        self._min_hits = sizes.min_hits & 0xFFFF
        self._key_only = key_only
        self._keys: list[_Key] = []
        self._drafted: tuple[_Key, _Value] | None = None
        self._n_at_begin = 0
        self._n_at_draft = 0
        self._place_of: dict[int, int] = {}
        """Places of n-grams by their hashes; the first to come stays."""
        self._hashed_up_to = 0

    def begin(self, n_tokens: int) -> None:
        start = self._n_at_begin
        if start > n_tokens:
            start = max(0, n_tokens - self._n - self._m)
        if n_tokens < self._n_at_draft:
            self._forget_from(start)
        self._n_at_draft = self._n_at_begin = n_tokens

    def draft(self, tokens: list[int], last: int) -> list[int]:
        self._drafted = None
        n, m, length = self._n, self._m, len(tokens)
        if length < 2 * n + m:
            return []
        if length < self._n_at_draft:
            # A full context was shifted meanwhile: nothing is where it was.
            self._forget_from(0)
            self._n_at_begin = 0
        self._n_at_draft = length
        wanted = [*tokens[length - n + 1 :], last]
        found = self._find(tokens, wanted)
        self._hash_new(tokens)
        if found is None:
            return []
        key = self._key(tokens, wanted, found)
        key.count = min(key.count + 1, _MOST_COUNTED)
        value = key.values[0] if self._key_only else self._most_frequent(tokens, wanted, key, found)
        if value is None:
            return []
        self._drafted = key, value
        return tokens[found + n : found + n + min(m, value.n_accepted)]

    def accepted(self, n_accepted: int) -> None:
        if self._drafted is not None:
            self._drafted[1].n_accepted = n_accepted

    def _find(self, tokens: list[int], wanted: list[int]) -> int | None:
        """Where the n-gram stood before, but not so near the end that too little follows."""
        n, newest = self._n, len(tokens) - self._n - self._m - 1
        hashed = self._place_of.get(_hash(wanted), 0)
        if 0 < hashed < newest and tokens[hashed : hashed + n] == wanted:
            return hashed
        at_begin = self._n_at_begin - n - self._m - 1
        found = None
        if at_begin > 0:
            found = find_last(tokens, wanted, self._hashed_up_to, at_begin)
        if found is None:
            found = find_last(tokens, wanted, max(self._n_at_begin, self._hashed_up_to), newest)
        return found

    def _hash_new(self, tokens: list[int]) -> None:
        """Take in n-grams that weren't there before, in the order in which they are searched."""
        n, newest = self._n, len(tokens) - self._n - self._m - 1
        at_begin = self._n_at_begin - n - self._m - 1
        for at in range(at_begin, self._hashed_up_to, -1):
            self._place_of.setdefault(_hash(tokens[at : at + n]), at)
        for at in range(newest, max(self._n_at_begin, self._hashed_up_to), -1):
            self._place_of.setdefault(_hash(tokens[at : at + n]), at)
        self._hashed_up_to = max(newest, self._hashed_up_to)

    def _key(self, tokens: list[int], wanted: list[int], found: int) -> _Key:
        n = self._n
        for key in self._keys:
            if tokens[key.at : key.at + n] == wanted:
                return key
        new = _Key(found)
        if self._key_only:
            new.values.append(_Value(0, 0, self._m))
        self._keys.append(new)
        return new

    def _most_frequent(
        self, tokens: list[int], wanted: list[int], key: _Key, found: int
    ) -> _Value | None:
        """What followed the key at least twice as often as all else together."""
        if key.count < self._min_hits:
            return None
        self._count_values(tokens, wanted, key, found)
        best = max(key.values, key=lambda value: value.count, default=None)
        if best is None:
            return None
        others = sum(value.count for value in key.values) - best.count
        return None if others > 0 and best.count < 2 * others else best

    def _count_values(self, tokens: list[int], wanted: list[int], key: _Key, found: int) -> None:
        n, m = self._n, self._m
        for at in range(key.looked_up_to, found + 1):
            if tokens[at] != wanted[0] or tokens[at : at + n] != wanted:
                continue
            follows = tokens[at + n : at + n + m]
            for value in key.values:
                if tokens[value.at : value.at + m] == follows:
                    break
            else:
                if len(key.values) == _MOST_VALUES:
                    continue
                value = _Value(at + n, 0, m)
                key.values.append(value)
            value.count = min(value.count + 1, _MOST_COUNTED)
        key.looked_up_to = found

    def _forget_from(self, start: int) -> None:
        """Forget what stands at `start` or later."""
        self._place_of = {hash: at for hash, at in self._place_of.items() if at < start}
        self._hashed_up_to = max(0, start - 1)
        kept = [key for key in self._keys if key.at < start]
        if not self._key_only:
            for key in kept:
                key.values = [value for value in key.values if value.at < start]
            kept = [key for key in kept if key.values]
        self._keys = kept


def _hash(tokens: list[int]) -> int:
    value = 0
    for token in tokens:
        value = (value * _HASH_FACTOR + token) & 0xFFFF_FFFF
    return value % _HASH_ENTRIES
