"""A model that several processes hold together, run by rank 0: the others repeat what it does.

Rank 0 alone schedules, samples and decides. Whatever it does with the model or with a cache it
says to the others first; they do the same with their parts, and MLX adds up what the parts give.
"""

import itertools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from engine.caches.layers import LayerCaches
from engine.caches.rotation import KeyRotation
from engine.caches.sequence import SequenceCache
from engine.distributed.channel import Followers, Message
from engine.errors import GroupBroken
from engine.running.batching import can_be_batched, trial_sizes, use_own_attention
from engine.running.runner import Logits, Runner

log = logging.getLogger(__name__)

CHANGES = ("add_checkpoint", "clear", "drop", "keep_first", "narrow", "reuse_chunks", "reuse_first")
"""The methods of a cache that change it, apart from `evaluated`, which comes with evaluating."""
_ROTATION = "the model's rotation"
_LOST_SECONDS = 1.0
"""How long after a failure it may take to be known that another process has ended."""


class SharedRunner(Runner):
    """Rank 0's: runs its part of the model after telling the others to run theirs."""

    def __init__(self, model: Any, n_vocab: int, followers: Followers, *, spare: int) -> None:
        """`spare` is `Runner`'s, and the same in all processes."""
        super().__init__(model, n_vocab, spare=spare, in_one_go=False)
        self._followers = followers
        self._numbers = itertools.count()
        self._forgotten: list[int] = []
        self._quiet = 0
        use_own_attention(model)

    def tell(self, *message: Any) -> None:
        """Say what is done next, and before that which caches are gone."""
        while self._forgotten:
            self._followers.tell("forget", self._forgotten.pop())
        self._followers.tell(*message)

    @contextmanager
    def saying(self, *message: Any) -> Iterator[None]:
        """Say what is done meanwhile, and nothing of what that consists of."""
        if not self._quiet:
            self.tell(*message)
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    def new_cache(self) -> SequenceCache:
        """An empty cache, here and in the other processes."""
        cache = self.unsaid_cache()
        self.tell("new", cache.number)
        return cache

    def unsaid_cache(self) -> "SharedCache":
        """An empty cache of which the others are still to be told."""
        number = next(self._numbers)
        cache = SharedCache(self._new_layers, number, self)
        weakref.finalize(cache, self._forgotten.append, number).atexit = False
        return cache

    def prefill(self, cache: SequenceCache, tokens: Sequence[int]) -> None:
        """As in one process."""
        with self._together("prefill", _number(cache), list(tokens)):
            super().prefill(cache, tokens)

    def decode(
        self, tokens: Sequence[int], caches: Sequence[SequenceCache], batch: int = 1
    ) -> Logits:
        """As in one process."""
        numbers = [_number(cache) for cache in caches]
        with self._together("decode", list(tokens), numbers, batch):
            return super().decode(tokens, caches, batch)

    def largest_batch(self, n_caches: int, most: int) -> int:
        """As in one process; tried out by rank 0, whose numbers decide for all."""
        caches = [self.new_cache() for _ in range(n_caches)]
        if not can_be_batched(caches[0].layers):
            return 1
        for n, cache in enumerate(caches):
            # Different lengths, as slots have them.
            self.prefill(cache, [0] * (n + 1))
        exact = 1
        for size in trial_sizes(most):
            counts = [len(range(first, size, n_caches)) for first in range(n_caches)]
            tokens = [token for count in counts for token in range(count)]
            held = [cache for cache, n in zip(caches, counts, strict=True) for _ in range(n)]
            try:
                together, alone = (self._tried(tokens, held, batch) for batch in (size, 1))
            except Exception as error:
                log.info("tokens aren't decoded together: %s", error)
                break
            if not np.array_equal(together, alone):
                break
            exact = size
        log.info("tokens are decoded in batches of %d", exact)
        return exact

    def _tried(self, tokens: list[int], caches: list[SequenceCache], batch: int) -> Logits:
        """Logits of a decode step after which the caches are as before.

        A model that can't take a batch raises before anything is computed, in every process.
        """
        before = [len(cache.tokens) for cache in caches]
        self.tell("try", tokens, [_number(cache) for cache in caches], batch)
        logits = super().decode(tokens, caches, batch)
        for cache, n_tokens in zip(caches, before, strict=True):
            cache.keep_first(n_tokens)
        return logits

    def _find_rotation(self) -> KeyRotation | None:
        with self._together("rotation"):
            return super()._find_rotation()

    @contextmanager
    def _together(self, *message: Any) -> Iterator[None]:
        """Do something that only ends if all others do it too."""
        self.tell(*message)
        try:
            yield
        except Exception as error:
            lost = self._followers.wait_lost(_LOST_SECONDS)
            reason = lost or f"rank 0 failed: {type(error).__name__}: {error}"
            raise GroupBroken(reason) from error


class SharedCache(SequenceCache):
    """Rank 0's part of a sequence's cache; the others' parts follow it."""

    def __init__(
        self, make_layers: Callable[[], LayerCaches], number: int, runner: SharedRunner
    ) -> None:
        """`number` is what it is called in messages."""
        self.number = number
        self._runner = runner
        super().__init__(make_layers)

    def copy(self) -> SequenceCache:
        """As in one process."""
        twin = super().copy()
        self._runner.tell("copy", self.number, _number(twin))
        return twin

    def change(self, method: str, *args: Any) -> Any:
        """Call one of `CHANGES` here and in the other processes."""
        with self._runner.saying("change", self.number, method, *map(_spelled, args)):
            return getattr(super(), method)(*args)

    def _empty(self) -> SequenceCache:
        return self._runner.unsaid_cache()


def _repeated(method: str) -> Callable[..., Any]:
    return lambda self, *args: self.change(method, *args)


for _method in CHANGES:
    setattr(SharedCache, _method, _repeated(_method))


class Mirror:
    """Every other rank's: does with its part what rank 0 says it does with its own."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._caches: dict[int, SequenceCache] = {}
        use_own_attention(runner.model)

    def repeat(self, message: Message) -> None:
        """Do what a message says; raises if that can't be done here."""
        what, *rest = message
        caches, runner = self._caches, self._runner
        match what:
            case "new":
                caches[rest[0]] = runner.new_cache()
            case "copy":
                caches[rest[1]] = caches[rest[0]].copy()
            case "forget":
                del caches[rest[0]]
            case "prefill":
                runner.prefill(caches[rest[0]], rest[1])
            case "decode":
                runner.decode(rest[0], [caches[number] for number in rest[1]], rest[2])
            case "try":
                with suppress(Exception):
                    self.repeat(["decode", *rest])
            case "rotation":
                runner.rotation  # noqa: B018  (found out once, together)
            case "change":
                number, method, *args = rest
                if method not in CHANGES:
                    raise ValueError(f"rank 0 changes a cache by {method!r}")
                args = [runner.rotation if arg == _ROTATION else arg for arg in args]
                getattr(caches[number], method)(*args)
            case _:
                raise ValueError(f"rank 0 says {what!r}, which isn't known here")


def _spelled(argument: Any) -> Any:
    """An argument as it is said; each process has the model's rotation itself."""
    return _ROTATION if isinstance(argument, KeyRotation) else argument


def _number(cache: SequenceCache) -> int:
    """What a cache is called in messages; all that a shared model meets are shared."""
    if not isinstance(cache, SharedCache):
        raise TypeError("this cache belongs to one process")
    return cache.number
