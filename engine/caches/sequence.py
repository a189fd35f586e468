"""One slot's KV cache together with the tokens it holds, so that the two can't part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx

from engine.caches.layers import LayerCaches, arrange, can_always_trim, copied
from engine.caches.rotation import KeyRotation
from engine.caches.window_cache import narrow, oldest_place, window_of

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The layers that can't be rolled back, as they were after so many tokens."""

    n_tokens: int
    id_task: int
    """The task it was made for."""
    layers: dict[int, Any]
    """Cache objects by the layer's number; never to be written to."""
    oldest: int
    """The earliest place that could be gone back to when it was made, by llama-server's count."""

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return sum(layer.nbytes for layer in self.layers.values())


class SequenceCache:
    """The evaluated tokens of one sequence and their keys and values (or recurrent states)."""

    def __init__(self, make_layers: Callable[[], LayerCaches]) -> None:
        """`make_layers` returns empty caches for the model."""
        self._make_layers = make_layers
        self.layers = make_layers()
        self.tokens: list[int] = []
        """Change through the methods only."""
        self.checkpoints: list[Checkpoint] = []

    def common_prefix(self, tokens: list[int]) -> int:
        """How many tokens this cache and `tokens` begin with in common."""
        limit, at = min(len(self.tokens), len(tokens)), 0
        # Slices compare in C; long prompts are looked at once per slot.
        while at < limit and self.tokens[at : at + _BLOCK] == tokens[at : at + _BLOCK]:
            at += _BLOCK
        while at < limit and self.tokens[at] == tokens[at]:
            at += 1
        return min(at, limit)

    def keep_first(self, n_tokens: int) -> int:
        """Forget all but the first `n_tokens`; returns how many could be kept.

        What can't be rolled back (recurrent state, a sliding window that has moved on) goes back
        to the last checkpoint before that, or is emptied without one.
        """
        if n_tokens >= len(self.tokens):
            return len(self.tokens)
        if n_tokens == 0:
            self.clear()
        elif all(layer.is_trimmable() for layer in self.layers):
            self._trim_to(n_tokens, self.layers)
        else:
            self._go_back_to_checkpoint(n_tokens)
        return len(self.tokens)

    def reuse_first(self, n_shared: int, n_prompt: int) -> int:
        """Forget what doesn't serve a prompt; returns how many of its tokens are kept.

        The first `n_shared` of the prompt's `n_prompt` tokens are the first here. One at least is
        left to evaluate. Where something can't be rolled back, the rules are llama-server's: the
        newest checkpoint serves that begins a window before what is shared, or at the very
        beginning; without one all is forgotten.
        """
        if not self.needs_checkpoints or n_shared == 0:
            return self.keep_first(min(n_shared, n_prompt - 1))
        window = max(window_of(layer) for layer in self.layers)
        enough = max(0, n_shared - window - (n_shared == n_prompt))
        oldest = self._oldest()
        found: Checkpoint | None = None
        n_past = n_shared
        if oldest >= enough:
            for one in self.checkpoints:
                if one.n_tokens <= n_shared + 1 and (one.oldest < enough or one.oldest == 0):
                    found = one
            if found is None:
                self.clear()
                return 0
            n_past = min(n_shared, max(found.oldest + 1, found.n_tokens - 1))
        states_only = window == 0
        kept = [c for c in self.checkpoints if c.n_tokens <= n_past + (not states_only)]
        n_past = min(n_past, n_prompt - 1)
        if n_past == 0:
            self.clear()
            return 0
        self._restore(found, n_past)
        self.checkpoints = kept
        return n_past

    def drop(self, start: int, end: int, rotation: KeyRotation) -> None:
        """Forget tokens `start` to `end` (not included); later ones move up to their places."""
        count = len(self.tokens)
        self._arrange([(0, start, 0), (end, count, start - end)], rotation)
        self.checkpoints = [c for c in self.checkpoints if c.n_tokens <= start]

    def reuse_chunks(
        self, tokens: list[int], n_past: int, smallest: int, rotation: KeyRotation
    ) -> int:
        """Move pieces of at least `smallest` tokens to where `tokens` has them.

        `n_past` is the common prefix; returns how many tokens of it and of the pieces in a row
        the cache begins with now, all in common with `tokens`. The search is llama-server's:
        pieces are taken in the cache's order, each straight after the one before.
        """
        pieces, head, at = [(0, n_past, 0)], n_past, n_past
        while head < len(self.tokens) and at < len(tokens):
            n_match = self._match(head, tokens, at)
            if n_match >= smallest:
                pieces.append((head, head + n_match, at - head))
                head, at = head + n_match, at + n_match
            else:
                head += 1
        if len(pieces) > 1:
            self._arrange(pieces, rotation)
        return at

    def clear(self) -> None:
        """Forget everything, whatever state an interrupted evaluation left behind."""
        self.layers = self._make_layers()
        self.tokens = []
        self.checkpoints = []

    def copy(self) -> "SequenceCache":
        """The same once more; memory is shared as long as neither changes."""
        twin = self._empty()
        twin.layers = [copied(layer) for layer in self.layers]
        twin.tokens = list(self.tokens)
        twin.checkpoints = list(self.checkpoints)
        return twin

    def narrow(self) -> None:
        """Hold no more than is needed to go on."""
        self.layers = [narrow(layer) for layer in self.layers]
        mx.eval(self.states())

    def evaluated(self, tokens: Sequence[int]) -> None:
        """The model ran over `tokens` with these layers and the outcome is computed."""
        self.tokens.extend(tokens)

    def states(self) -> list[Any]:
        """What `mx.eval` needs so that the cache is computed, and nothing beyond it."""
        return [layer.state for layer in self.layers]

    @property
    def needs_checkpoints(self) -> bool:
        """Whether some layer can't be rolled back whenever asked to."""
        return not all(can_always_trim(layer) for layer in self.layers)

    def add_checkpoint(self, id_task: int, most: int, min_step: int) -> None:
        """Remember the state as it is now; by llama-server's rules older ones make room for it.

        Of other tasks' checkpoints none stays within `min_step` tokens after another.
        """
        kept: list[Checkpoint] = []
        for old in self.checkpoints:
            near = bool(kept) and old.n_tokens <= kept[-1].n_tokens + min_step
            if old.id_task == id_task or not near:
                kept.append(old)
        layers = {n: narrow(copied(x)) for n, x in enumerate(self.layers) if not can_always_trim(x)}
        mx.eval([layer.state for layer in layers.values()])
        new = Checkpoint(len(self.tokens), id_task, layers, self._oldest())
        kept = [old for old in kept if old.n_tokens != new.n_tokens]
        self.checkpoints = [*kept[max(0, len(kept) + 1 - most) :], new]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        held: int = sum(layer.nbytes for layer in self.layers)
        return held + sum(checkpoint.nbytes for checkpoint in self.checkpoints)

    def _empty(self) -> "SequenceCache":
        return SequenceCache(self._make_layers)

    def _oldest(self) -> int:
        return max(oldest_place(layer, len(self.tokens)) for layer in self.layers)

    def _match(self, head: int, tokens: list[int], at: int) -> int:
        """How many tokens from `head` on here are those from `at` on in `tokens`."""
        limit = min(len(self.tokens) - head, len(tokens) - at)
        n_match = 0
        while n_match < limit and self.tokens[head + n_match] == tokens[at + n_match]:
            n_match += 1
        return n_match

    def _arrange(self, pieces: list[tuple[int, int, int]], rotation: KeyRotation) -> None:
        """Keep only `pieces` (start, end, distance to move), which follow each other then."""
        for number, layer in enumerate(self.layers):
            arrange(layer, pieces, partial(rotation.moved, number))
        mx.eval(self.states())
        self.tokens = [token for a, b, _ in pieces for token in self.tokens[a:b]]

    def _trim_to(self, n_tokens: int, layers: LayerCaches) -> None:
        for layer in layers:
            layer.trim(len(self.tokens) - n_tokens)
        del self.tokens[n_tokens:]
        self.checkpoints = [c for c in self.checkpoints if c.n_tokens <= n_tokens]

    def _go_back_to_checkpoint(self, n_tokens: int) -> None:
        found = [c for c in self.checkpoints if c.n_tokens <= n_tokens]
        if not found:
            self.clear()
            return
        self._restore(found[-1], found[-1].n_tokens)

    def _restore(self, checkpoint: Checkpoint | None, n_tokens: int) -> None:
        """Go back to a checkpoint, if it is one, and from there to so many tokens."""
        if checkpoint is None and n_tokens == len(self.tokens):
            return
        saved = {} if checkpoint is None else checkpoint.layers
        self._trim_to(n_tokens, [x for n, x in enumerate(self.layers) if n not in saved])
        for number, layer in saved.items():
            self.layers[number] = copied(layer)
            if checkpoint is not None and checkpoint.n_tokens > n_tokens:
                self.layers[number].trim(checkpoint.n_tokens - n_tokens)


def token_array(tokens: Sequence[int]) -> mx.array:
    """A batch of one sequence: int32 [1, len(tokens)]."""
    return mx.array([tokens], dtype=mx.int32)
