"""What sampling and grammars need of a tokenizer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Vocab(Hashable, Protocol):
    """Text to tokens and back; what is worked out from one is kept by its hash."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of a text."""

    def piece(self, token: int, *, special: bool) -> bytes:
        """What a token prints as; nothing for control tokens unless `special`."""

    def is_eog(self, token: int) -> bool:
        """Whether a token ends generation."""
