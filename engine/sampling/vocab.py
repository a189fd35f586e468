"""What sampling needs of a tokenizer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Vocab(Hashable, Protocol):
    """Pieces and ends of generation; `engine`'s tokenizers fulfil it."""

    def piece(self, token: int, *, special: bool) -> bytes: ...

    def is_eog(self, token: int) -> bool: ...

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...
