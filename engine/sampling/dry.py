"""DRY: penalties that grow with the length of the repetition a token would continue."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice

import numpy as np

from engine.sampling.candidates import Candidates
from engine.sampling.step import Step
from engine.sampling.vocab import Vocab

_MAX_BREAKER_BYTES = 40
_MAX_TAIL_TOKENS = 20
_LOG_FLOAT_MAX = np.float32(88.7228391)

# The token a sequence breaker may begin in, and the tokens that have to follow it there.
Breakers = Mapping[int, frozenset[tuple[int, ...]]]


class Dry(Step):
    """Looks for repetitions in the last n accepted tokens, not across sequence breakers."""

    def __init__(
        self, multiplier: float, base: float, allowed: int, last_n: int, breakers: Breakers
    ) -> None:
        """Only built when it has an effect: multiplier != 0, base >= 1 and last_n > 0."""
        self._multiplier, self._base = float(np.float32(multiplier)), np.float32(base)
        self._allowed, self._last_n, self._breakers = allowed, last_n, breakers
        self._history: deque[int] = deque(maxlen=last_n)
        # Keeps base ** exponent within float32; 0 is no limit.
        self._max_exponent = 0
        if self._base > np.float32(1.000001):
            log_base = np.float32(math.log(float(self._base)))
            self._max_exponent = int(_LOG_FLOAT_MAX / log_base)

    def accept(self, token: int) -> None:
        self._history.append(token)

    def reset(self) -> None:
        self._history.clear()

    def apply(self, candidates: Candidates) -> None:
        recent = list(reversed(self._history))
        if len(recent) <= self._allowed:
            return
        limit = self._unbroken(recent)
        if limit < self._allowed:
            return
        penalties = {
            token: np.float32(self._multiplier * float(self._base) ** self._exponent(length))
            for token, length in self._continued(recent, limit).items()
            if () not in self._breakers.get(token, frozenset())
        }
        if penalties:
            self._subtract(candidates, penalties)
        candidates.sorted = False

    def _exponent(self, length: int) -> int:
        exponent = length - self._allowed
        return min(exponent, self._max_exponent) if self._max_exponent > 0 else exponent

    def _unbroken(self, recent: list[int]) -> int:
        """How many of the newest tokens come after the last sequence breaker."""
        for age, token in enumerate(recent):
            tails = self._breakers.get(token, frozenset())
            found = [
                len(tail)
                for tail in tails
                if len(tail) <= age and list(reversed(recent[age - len(tail) : age])) == list(tail)
            ]
            if found:
                return age - max(found)
        return len(recent)

    def _continued(self, recent: list[int], limit: int) -> dict[int, int]:
        """For each token that would continue a repetition: the longest it would continue."""
        longest: dict[int, int] = {}
        for shift, length in enumerate(common_prefixes(recent)):
            if shift and min(length, limit) >= self._allowed:
                token = recent[shift - 1]
                longest[token] = max(longest.get(token, 0), min(length, limit))
        return longest

    @staticmethod
    def _subtract(candidates: Candidates, penalties: dict[int, np.float32]) -> None:
        logits = candidates.writable_logits()
        if candidates.ids is None:
            at = np.fromiter(penalties, dtype=np.intp)
            logits[at] -= np.array([penalties[token] for token in at.tolist()], dtype=np.float32)
            return
        for index in np.flatnonzero(np.isin(candidates.ids, list(penalties))).tolist():
            logits[index] -= penalties[int(candidates.ids[index])]


def common_prefixes(sequence: list[int]) -> list[int]:
    """For each shift, how many tokens `sequence` and itself shifted have in common (Z-function)."""
    total = len(sequence)
    z = [total] + [0] * (total - 1)
    start = end = 0
    for shift in range(1, total):
        length = min(end - shift, z[shift - start]) if shift < end else 0
        while shift + length < total and sequence[length] == sequence[shift + length]:
            length += 1
        z[shift] = length
        if shift + length > end:
            start, end = shift, shift + length
    return z


def breakers(vocab: Vocab, n_vocab: int, texts: Iterable[str]) -> Breakers:
    """Where sequence breakers can begin: in tokens that hold one, or end with a part of one.

    Texts count up to a NUL and up to 40 bytes; empty ones are left out.
    """
    merged: dict[int, frozenset[tuple[int, ...]]] = {}
    for text in texts:
        wanted = text.encode(errors="surrogatepass").split(b"\0")[0][:_MAX_BREAKER_BYTES]
        if wanted:
            for token, tails in _heads(vocab, n_vocab, wanted).items():
                merged[token] = merged.get(token, frozenset()) | tails
    return merged


@lru_cache(maxsize=64)
def _heads(vocab: Vocab, n_vocab: int, wanted: bytes) -> Breakers:
    heads: dict[int, frozenset[tuple[int, ...]]] = {}
    tails = {length: _tail(vocab, wanted[length:]) for length in range(1, len(wanted))}
    for token, piece in enumerate(islice(_pieces(vocab, n_vocab), n_vocab)):
        if wanted in piece:
            heads[token] = frozenset({()})
            continue
        # A piece without the whole text can only hold a beginning of it at its own end.
        found = {tail for length, tail in tails.items() if piece.endswith(wanted[:length])}
        if found:
            heads[token] = frozenset(found)
    return heads


def _tail(vocab: Vocab, rest: bytes) -> tuple[int, ...]:
    text = rest.decode(errors="surrogateescape")
    tokens = vocab.encode(text, add_special=False, parse_special=False)
    return tuple(tokens[:_MAX_TAIL_TOKENS])


@lru_cache(maxsize=2)
def _pieces(vocab: Vocab, n_vocab: int) -> list[bytes]:
    return [vocab.piece(token, special=True) for token in range(n_vocab)]
