"""The interface the server tokenises through, whatever format a model came in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.tokenizer.special_ids import SpecialIds
from engine.tokenizer.vocab import VocabType


class Tokenizer(ABC):
    """Text to token ids and back.

    `add_bos`, `add_eos` and `add_sep` say what `encode(..., add_special=True)` puts around a text;
    `eog` holds every token that ends generation; `suppress` the tokens that must not be sampled.
    Ids outside 0 <= id < n_tokens raise IndexError from every method that takes one.
    """

    vocab_type: VocabType
    n_tokens: int
    ids: SpecialIds
    add_bos: bool
    add_eos: bool
    add_sep: bool
    eog: frozenset[int]
    suppress: tuple[int, ...]
    chat_template: str | None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """From the metadata of a GGUF file, as `read_gguf(path).metadata` has it.

        Raises UnsupportedTokenizer, a ValueError of one line, where llama.cpp wouldn't load it
        either.
        """
        from engine.tokenizer.gguf import GgufTokenizer

        return GgufTokenizer(metadata)

    @classmethod
    def from_hf(cls, path: str | Path) -> Tokenizer:
        """From a directory with `tokenizer.json`; raises UnsupportedTokenizer without one."""
        from engine.tokenizer.huggingface import HuggingFaceTokenizer

        return HuggingFaceTokenizer(Path(path))

    @abstractmethod
    def encode(self, text: str | bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        """The ids of a text (`llama_tokenize`).

        `parse_special` finds control tokens in the text, which are text otherwise. Invalid UTF-8
        and lone surrogates are tokenised as llama.cpp tokenises such bytes.
        """

    @abstractmethod
    def piece(self, token: int, *, special: bool = True) -> bytes:
        """What a token prints as; nothing for control and unknown tokens unless `special`."""

    @abstractmethod
    def detokenize(self, tokens: Sequence[int], *, special: bool) -> bytes:
        """The text of whole sequences, a prefixed space dropped (`llama_detokenize`)."""

    @abstractmethod
    def token_text(self, token: int) -> str:
        """A token as the vocabulary writes it."""

    @abstractmethod
    def text_to_token(self, text: str) -> int | None:
        """The token the vocabulary writes so."""

    @abstractmethod
    def token_score(self, token: int) -> float:
        """A token's score, 0 in vocabularies without."""

    @abstractmethod
    def is_control(self, token: int) -> bool:
        """Whether a token is a control token: hidden in text, found in prompts alone."""

    @abstractmethod
    def is_user_defined(self, token: int) -> bool:
        """Whether a token is found in every text and shown in every text."""

    @abstractmethod
    def is_unused(self, token: int) -> bool:
        """Whether a token is a placeholder."""

    @abstractmethod
    def is_byte(self, token: int) -> bool:
        """Whether a token stands for one byte, `<0xXX>`."""

    def is_eog(self, token: int) -> bool:
        """Whether a token ends generation."""
        return token in self.eog

    def decode(self, tokens: Sequence[int], *, special: bool) -> bytes:
        """The pieces of tokens, joined (llama-server's `tokens_to_str`)."""
        return b"".join([self.piece(token, special=special) for token in tokens])

    def pieces(self) -> list[bytes]:
        """The piece of every token, in order, for grammars."""
        return [self.piece(token) for token in range(self.n_tokens)]

    @property
    def bos(self) -> int | None:
        """Begin of sequence."""
        return self.ids.bos

    @property
    def eos(self) -> int | None:
        """End of sequence."""
        return self.ids.eos

    @property
    def eot(self) -> int | None:
        """End of turn."""
        return self.ids.eot

    @property
    def eom(self) -> int | None:
        """End of message."""
        return self.ids.eom

    @property
    def unk(self) -> int | None:
        """Unknown."""
        return self.ids.unk

    @property
    def sep(self) -> int | None:
        """Separator."""
        return self.ids.sep

    @property
    def pad(self) -> int | None:
        """Padding."""
        return self.ids.pad

    @property
    def mask(self) -> int | None:
        """Mask."""
        return self.ids.mask

    @property
    def nl(self) -> int | None:
        """Newline."""
        return self.ids.nl

    @property
    def fim_pre(self) -> int | None:
        """Infill: what follows is the text before the hole."""
        return self.ids.fim_pre

    @property
    def fim_suf(self) -> int | None:
        """Infill: what follows is the text after the hole."""
        return self.ids.fim_suf

    @property
    def fim_mid(self) -> int | None:
        """Infill: what follows is the text in the hole."""
        return self.ids.fim_mid

    @property
    def fim_pad(self) -> int | None:
        """Infill: padding."""
        return self.ids.fim_pad

    @property
    def fim_rep(self) -> int | None:
        """Infill: the name of a repository."""
        return self.ids.fim_rep

    @property
    def fim_sep(self) -> int | None:
        """Infill: the name of a file."""
        return self.ids.fim_sep
