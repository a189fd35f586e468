"""What serving needs of a tokenizer."""

from dataclasses import dataclass
from typing import Protocol


class Vocabulary(Protocol):
    """Text to tokens and back, on any thread; `engine.tokenizer.Tokenizer` fulfils it."""

    @property
    def n_tokens(self) -> int:
        """Token ids are below this."""

    @property
    def add_bos(self) -> bool:
        """Whether texts begin with a token of their own."""

    @property
    def suppress(self) -> tuple[int, ...]:
        """Tokens that must not be sampled."""

    @property
    def eos(self) -> int | None:
        """End of sequence."""

    @property
    def eot(self) -> int | None:
        """End of turn."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of a text."""

    def piece(self, token: int, *, special: bool) -> bytes:
        """What a token prints as; nothing for control tokens unless `special`."""

    def is_eog(self, token: int) -> bool:
        """Whether a token ends generation."""


@dataclass(frozen=True, slots=True)
class SamplingVocabulary:
    """A tokenizer under the names that sampling knows."""

    vocabulary: Vocabulary

    def piece(self, token: int, *, special: bool) -> bytes:
        """What a token prints as."""
        return self.vocabulary.piece(token, special=special)

    def is_eog(self, token: int) -> bool:
        """Whether a token ends generation."""
        return self.vocabulary.is_eog(token)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of a text."""
        encode = self.vocabulary.encode
        return encode(text, add_special=add_special, parse_special=parse_special)
