"""What every kind of guessing can do."""

from typing import Protocol


class Drafter(Protocol):
    """Guesses the tokens that follow in a slot; slots are known by their ids."""

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """A new answer begins in the slot; `prompt` is all it holds."""

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """Guess what follows `tokens`, which the slot holds, and `last`, which was just chosen.

        More than `limit` tokens are of no use.
        """

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """So many tokens of the slot's last guess, which was this one's, were right."""
