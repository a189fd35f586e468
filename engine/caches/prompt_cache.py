"""Prompts kept in memory outside the slots, brought back when a similar one comes."""

import logging

from engine.caches.sequence import SequenceCache

log = logging.getLogger(__name__)

_MIB = 1 << 20
_LEAST_KEPT = 0.25
"""A kept prompt isn't spent on a request that would use less than this share of it."""


class PromptCache:
    """Caches that left their slots, the oldest first, up to a limit in bytes and in tokens.

    The rules are llama-server's (`server_prompt_cache`).
    """

    def __init__(self, limit_mib: int, limit_tokens: int) -> None:
        """`limit_mib` below 0 sets no limit in bytes; the one in tokens grows where bytes allow."""
        self._limit = max(0, limit_mib) * _MIB
        self._limit_tokens = limit_tokens
        self._kept: list[SequenceCache] = []

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return sum(cache.nbytes for cache in self._kept)

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts together."""
        return sum(len(cache.tokens) for cache in self._kept)

    def save(self, cache: SequenceCache) -> None:
        """Keep a copy in place of its beginnings, unless it is empty, too large or kept already."""
        if not cache.tokens:
            return
        if any(old.common_prefix(cache.tokens) == len(cache.tokens) for old in self._kept):
            return
        size = cache.nbytes
        if 0 < self._limit < size:
            log.warning("a prompt of %d bytes is larger than --cache-ram", size)
            return
        self._kept = [
            old for old in self._kept if old.common_prefix(cache.tokens) < len(old.tokens)
        ]
        if self._limit:
            self._shrink_to(self._limit - size)
        kept = cache.copy()
        kept.narrow()
        self._kept.append(kept)

    def take(self, cache: SequenceCache, tokens: list[int]) -> SequenceCache | None:
        """The kept prompt that serves `tokens` better than `cache` does; it is kept no longer."""
        shared = cache.common_prefix(tokens)
        keep = shared / len(cache.tokens) if cache.tokens else -1.0
        similar = shared / len(tokens) if tokens else 0.0
        best: SequenceCache | None = None
        for old in self._kept:
            shared = old.common_prefix(tokens)
            old_keep, old_similar = shared / len(old.tokens), shared / max(1, len(tokens))
            if old_keep >= _LEAST_KEPT and keep < old_keep and similar < old_similar:
                best, keep, similar = old, old_keep, old_similar
        if best is not None:
            self._kept.remove(best)
        return best

    def shrink(self) -> None:
        """Drop the oldest prompts until the limits hold."""
        if self._limit:
            self._shrink_to(self._limit)
        per_token = max(1.0, self.nbytes / max(1, self.n_tokens))
        limit = max(self._limit_tokens, int(self._limit / per_token))
        while self._kept and self._limit_tokens > 0 and self.n_tokens > limit:
            del self._kept[0]

    def clear(self) -> None:
        """Forget everything: memory is needed elsewhere."""
        self._kept.clear()

    def _shrink_to(self, nbytes: int) -> None:
        while self._kept and self.nbytes > nbytes:
            del self._kept[0]
