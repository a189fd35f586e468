"""ngram-mod: one table for all slots, of the token that followed each n-gram last."""

from dataclasses import dataclass

_ENTRIES = 1 << 22
_FACTOR = 6364136223846793005
_MOST_USED = _ENTRIES // 4
_ADD_EVERY = 32
"""So many new tokens of a slot are taken into the table together."""
_LOW = 0.25
_MOST_LOW = 5


@dataclass(slots=True)
class _Known:
    """How far a slot's text is in the table, and how the guesses for it went."""

    up_to: int = 0
    n_drafted: int = 0
    n_low: int = 0
    """Guesses in a row of which less than a quarter was right."""


class NgramMod:
    """The table is emptied when it is a quarter full, or when guesses keep going wrong."""

    def __init__(self, n_match: int, n_max: int, n_min: int) -> None:
        """`n_match` tokens are looked up; guesses of fewer than `n_min` tokens are of no use."""
        self._n = n_match
        self._n_max = n_max
        self._n_min = n_min
        self._table: dict[int, int] = {}
        """Tokens by their places; different n-grams may share one."""
        self._known: dict[int, _Known] = {}

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """Take the prompt into the table."""
        known = self._of(id_slot)
        known.up_to = known.n_drafted = 0
        if len(prompt) < self._n:
            return
        self._add(prompt, 0)
        known.up_to = len(prompt) - self._n
        if len(self._table) > _MOST_USED:
            self._table.clear()

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """Follow the table from n-gram to n-gram, at most `n_max` tokens far."""
        known, n, length = self._of(id_slot), self._n, len(tokens)
        known.n_drafted = 0
        if length < n:
            return []
        if known.up_to + _ADD_EVERY < length:
            self._add(tokens, known.up_to)
            known.up_to = length - n
        text = [*tokens[length - n + 1 :], last]
        for at in range(self._n_max):
            token = self._table.get(_place(text[at : at + n]))
            if token is None:
                if at < self._n_min:
                    return []
                break
            text.append(token)
        known.n_drafted = len(text) - n
        return text[n:]

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """Empty the table after guesses in a row that were mostly wrong."""
        known = self._of(id_slot)
        if known.n_drafted == 0:
            return
        if n_accepted / known.n_drafted >= _LOW:
            known.n_low = 0
            return
        known.n_low += 1
        if known.n_low >= _MOST_LOW:
            self._table.clear()
            known.n_low = known.up_to = 0

    def _add(self, tokens: list[int], start: int) -> None:
        """Every n-gram from `start` on that a token follows."""
        n = self._n
        for at in range(start, len(tokens) - n):
            self._table[_place(tokens[at : at + n])] = tokens[at + n]

    def _of(self, id_slot: int) -> _Known:
        return self._known.setdefault(id_slot, _Known())


def _place(tokens: list[int]) -> int:
    value = 0
    for token in tokens:
        value = (value * _FACTOR + token) % _ENTRIES
    return value
