"""What serving needs of a tokenizer."""

from typing import Protocol

from engine.sampling import Vocab


class Vocabulary(Vocab, Protocol):
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
