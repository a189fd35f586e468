"""What every step of a sampler chain can do."""

from __future__ import annotations

from engine.sampling.candidates import Candidates


class Step:
    """One sampler of the chain; most keep no state and only need `apply`."""

    def apply(self, candidates: Candidates) -> None:
        """Change, order or cut down the candidates, or select one of them."""
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """Take note of a token that became part of the sequence."""

    def reset(self) -> None:
        """Forget accepted tokens and seed again."""
