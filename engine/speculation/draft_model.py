"""draft-simple: a smaller model with the same vocabulary goes ahead."""

import numpy as np

from engine.caches.sequence import SequenceCache
from engine.running.runner import Logits, Runner

_CHUNK = 256
_CANDIDATES = 10


class DraftModel:
    """Takes its own likeliest token every time; keeps each slot's text in a cache of its own."""

    def __init__(self, runner: Runner, *, n_max: int, n_min: int, p_min: float) -> None:
        """Stops where the likeliest token has less than `p_min`; `n_min` tokens or none."""
        self._runner = runner
        self._n_max = n_max
        self._n_min = n_min
        self._p_min = p_min
        self._caches: dict[int, SequenceCache] = {}

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """The prompt is read with the first guess."""

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """At least `n_min` tokens and at most `n_max`, but always one if that is 0."""
        cache = self._follow(id_slot, tokens)
        draft: list[int] = []
        token = last
        while True:
            [logits] = self._runner.decode([token], [cache])
            token = int(np.argmax(logits))
            if _share_of_best(logits) < self._p_min:
                break
            draft.append(token)
            if len(draft) >= min(self._n_max, limit):
                break
        return draft if len(draft) >= self._n_min else []

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """Nothing to learn: what was wrong is dropped with the next guess."""

    def _follow(self, id_slot: int, tokens: list[int]) -> SequenceCache:
        """The slot's cache, holding `tokens` and nothing beyond."""
        if id_slot not in self._caches:
            self._caches[id_slot] = self._runner.new_cache()
        cache = self._caches[id_slot]
        try:
            done = cache.keep_first(cache.common_prefix(tokens))
            for at in range(done, len(tokens), _CHUNK):
                self._runner.prefill(cache, tokens[at : at + _CHUNK])
        except Exception:
            cache.clear()
            raise
        return cache


def _share_of_best(logits: Logits) -> float:
    """The probability of the likeliest token among the ten likeliest, in float32."""
    n = min(_CANDIDATES, len(logits))
    best = np.partition(logits, -n)[-n:]
    return float(1 / np.exp(best - best.max()).sum())
