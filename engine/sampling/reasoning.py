"""Ends a reasoning that has used up its budget, by llama.cpp's rules."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import numpy as np

from engine.sampling.candidates import Floats
from engine.sampling.vocab import Vocab

Tokens = tuple[int, ...]


class Phase(Enum):
    """Where a text is with its reasoning."""

    BEFORE = auto()
    COUNTING = auto()
    COMPLETING = auto()  # the budget is spent, but the last character isn't whole
    FORCING = auto()
    DONE = auto()


class _Watch:
    """Notices when one of some token sequences has just been completed."""

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        self._sequences = tuple(dict.fromkeys(filter(None, sequences)))
        self._longest = max(map(len, self._sequences), default=0)
        self._last: Tokens = ()

    def advance(self, token: int) -> Tokens | None:
        """The longest sequence that ends with `token`; after one it starts over."""
        self._last = (*self._last, token)[-self._longest :] if self._longest else ()
        ended = [s for s in self._sequences if self._last[-len(s) :] == s]
        if not ended:
            return None
        self.reset()
        return max(ended, key=len)

    def reset(self) -> None:
        self._last = ()


class ReasoningBudget:
    """Counts the tokens of a reasoning between its tags and forces its end when they are spent."""

    def __init__(
        self,
        start: Tokens,
        ends: Sequence[Tokens],
        forced: Tokens,
        budget: int | None,
        vocab: Vocab,
    ) -> None:
        """`budget` is in tokens, None for no limit; `forced` is what is written at the end."""
        self._start, self._end = _Watch([start]), _Watch(ends)
        self._forced, self._budget, self._vocab = forced, budget, vocab
        self._remaining = 0
        self._position = 0
        self.phase = Phase.BEFORE
        self.ended_by: Tokens | None = None
        """The sequence that ended the reasoning last."""

    @property
    def outside(self) -> bool:
        """Whether no reasoning is going on."""
        return self.phase in (Phase.BEFORE, Phase.DONE)

    def apply(self, logits: Floats) -> Floats:
        """The logits, or while the end is forced ones that leave only its next token."""
        if self.phase != Phase.FORCING or self._position >= len(self._forced):
            return logits
        only = np.full_like(logits, -np.inf)
        token = self._forced[self._position]
        only[token] = logits[token]
        return only

    def accept(self, token: int) -> None:
        """Take note of a token of the text."""
        if self.phase in (Phase.BEFORE, Phase.DONE):
            if self._start.advance(token) is not None:
                if self.phase == Phase.DONE:
                    self._end.reset()
                    self.ended_by = None
                self._begin()
        elif self.phase == Phase.FORCING:
            found = self._end.advance(token)
            self._position += 1
            if self._position >= len(self._forced):
                self.phase, self.ended_by = Phase.DONE, found
        else:
            self._count(token)

    def end_now(self) -> bool:
        """Force the end of a reasoning that is going on; False if none is."""
        if self.phase != Phase.COUNTING:
            return False
        self._force()
        return True

    def _begin(self) -> None:
        self.phase = Phase.COUNTING
        self._remaining = 0 if self._budget is None else self._budget
        if self._budget is not None and self._remaining <= 0:
            self.phase, self._position = Phase.FORCING, 0

    def _count(self, token: int) -> None:
        found = self._end.advance(token)
        if found is not None:
            self.phase, self.ended_by = Phase.DONE, found
            return
        whole = _ends_whole(self._vocab.piece(token, special=False))
        if self.phase == Phase.COMPLETING:
            if whole:
                self._force()
        elif self._budget is not None:
            self._remaining -= 1
            if self._remaining <= 0:
                self._force()
                self.phase = Phase.FORCING if whole else Phase.COMPLETING

    def _force(self) -> None:
        self.phase, self._position = Phase.FORCING, 0
        self._end.reset()


def _ends_whole(piece: bytes) -> bool:
    """Whether the last character of a token's text is complete, as far as the token shows it."""
    if not piece:
        return True
    for length in range(1, min(4, len(piece)) + 1):
        byte = piece[-length]
        if byte & 0xC0 != 0x80:
            return length >= 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
    return False
