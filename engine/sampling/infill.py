"""The infill sampler: end the text where that is likely enough, else join common beginnings."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from engine.sampling.candidates import Candidates, Floats, total
from engine.sampling.step import Step
from engine.sampling.vocab import Vocab

_LEAST = np.float32(0.2)


class Infill(Step):
    """Meant to stand after top-k and top-p, when few candidates are left."""

    def __init__(self, vocab: Vocab, end_token: int | None) -> None:
        """`end_token` ends a turn, or else the text: taken when no text is likely enough."""
        self._vocab, self._end_token = vocab, end_token

    def apply(self, candidates: Candidates) -> None:
        candidates.sort()
        p = candidates.softmax()
        ids = candidates.tokens().tolist()
        ends = np.array([self._vocab.is_eog(token) for token in ids])
        if np.float32(3) * total(p[ends]) * np.float32(candidates.size) > total(p[~ends]):
            candidates.take(np.flatnonzero(ends))
            return
        self._join(candidates, p)
        kept = self._keep(candidates, ends, _LEAST)
        n_text = int((~kept).sum())
        if not n_text:
            self._end(candidates)
            return
        if candidates.p is not None:
            candidates.p = candidates.p / total(candidates.p)
        self._keep(candidates, kept, np.float32(1 / (n_text + 1)))

    def _join(self, candidates: Candidates, p: Floats) -> None:
        """Give a candidate's probability to the likelier of two of which one begins the other."""
        logits = candidates.writable_logits()
        pieces = [self._vocab.piece(int(token), special=False) for token in candidates.tokens()]
        by_piece = sorted(range(len(pieces)), key=pieces.__getitem__)
        in_order = [pieces[index] for index in by_piece]
        for a, first in enumerate(pieces):
            if not first or logits[a] == -np.inf:
                continue
            begin = bisect_left(in_order, first)
            end = bisect_left(in_order, True, begin, key=lambda piece: not piece.startswith(first))
            for b in sorted(by_piece[begin:end]):
                if logits[a] == -np.inf:
                    break
                if a == b or logits[b] == -np.inf:
                    continue
                into, out = (b, a) if p[b] > p[a] else (a, b)
                p[into] += p[out]
                p[out] = 0
                logits[out] = -np.inf

    @staticmethod
    def _keep(candidates: Candidates, ends: np.ndarray, least: np.float32) -> np.ndarray:
        """Keep ends and what is likely enough; returns which of the kept are ends."""
        assert candidates.p is not None
        kept = np.flatnonzero(ends | ~(candidates.p < least))
        candidates.take(kept)
        return ends[kept]

    def _end(self, candidates: Candidates) -> None:
        candidates.leave(self._end_token, np.float32(1))
