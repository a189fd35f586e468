"""The tokenizer of a GGUF file, by the rules of llama.cpp's `llama-vocab.cpp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from engine.tokenizer.bpe import BpeEncoder, DnaEncoder, WhitespaceEncoder
from engine.tokenizer.clean import clean_spaces
from engine.tokenizer.longest import RwkvEncoder
from engine.tokenizer.partition import Partition
from engine.tokenizer.plamo2 import Plamo2Encoder
from engine.tokenizer.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from engine.tokenizer.special_ids import SpecialIds, find_special, read_ids
from engine.tokenizer.spm import SpmEncoder
from engine.tokenizer.text import decode
from engine.tokenizer.tokenizer import Tokenizer
from engine.tokenizer.ugm import UgmEncoder
from engine.tokenizer.vocab import (
    BYTE,
    CONTROL,
    DNA_MARKER,
    LSTRIP,
    RSTRIP,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    UnsupportedTokenizer,
    Vocab,
    VocabType,
    as_ids,
)
from engine.tokenizer.wpm import WpmEncoder

_TYPES: dict[str, VocabType] = {
    "llama": "spm",
    "bert": "wpm",
    "gpt2": "bpe",
    "hybriddna": "bpe",
    "whitespace": "bpe",
    "gemma4": "bpe",
    "t5": "ugm",
    "rwkv": "rwkv",
    "plamo2": "plamo2",
}


class _Encoder(Protocol):
    def encode(self, text: str) -> list[int]: ...


def _default_ids(model: str) -> SpecialIds:
    if model == "llama":
        return SpecialIds(bos=1, eos=2, unk=0)
    if model == "bert":
        return SpecialIds(bos=101, unk=100, sep=102, pad=0, mask=103)
    if model in ("gpt2", "hybriddna", "whitespace"):
        return SpecialIds(bos=11, eos=11)
    if model == "t5":
        return SpecialIds(eos=1, unk=2, pad=0)
    if model == "plamo2":
        return SpecialIds(bos=1, eos=2, unk=0, pad=3)
    return SpecialIds()


class GgufTokenizer(Tokenizer):
    """A vocabulary of any of llama.cpp's types, from metadata alone."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        model = metadata.get("tokenizer.ggml.model")
        if model is None:
            raise UnsupportedTokenizer("key not found in model: tokenizer.ggml.model")
        if model in ("no_vocab", "none"):
            raise UnsupportedTokenizer("this model has no vocabulary to tokenise with")
        if model not in _TYPES:
            raise UnsupportedTokenizer(f"unknown tokenizer: '{model}'")
        self.vocab_type = _TYPES[model]
        pre = self._pre_tokenizer(metadata, model)
        is_bpe = self.vocab_type == "bpe"
        self._vocab = Vocab(metadata, self.vocab_type, pre.escape_space or not is_bpe)
        self.n_tokens = len(self._vocab)
        self.ids = _default_ids(model)
        if pre.no_default_bos:
            self.ids.bos = None
        default_pad = self.ids.pad
        self._read_switches(metadata, pre)
        read_ids(self.ids, metadata, self.n_tokens)
        # The encoders see the token types as the file has them, before any is mended below.
        self._encoder = self._make_encoder(metadata, model, pre)
        self.ids.nl = self._newline(default_pad)
        self.eog = find_special(self.ids, self._vocab)
        self._partition = Partition(self._vocab)
        self._set_strip_attributes(metadata)
        self.suppress = tuple(
            as_ids(metadata.get("tokenizer.ggml.suppress_tokens") or (), self.n_tokens)
        )
        self.chat_template = metadata.get("tokenizer.chat_template")

    def encode(self, text: str | bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        fragments = self._partition.split(decode(text), parse_special=parse_special)
        encode = self._encoder.encode
        has_bos = self.vocab_type not in ("rwkv", "plamo2")
        ids: list[int] = []
        first = self.ids.bos if self.add_bos or self.vocab_type == "wpm" else None
        if add_special and has_bos and first is not None:
            ids.append(first)
        after_special = self.vocab_type == "spm" and self._add_space_prefix
        for fragment in fragments:
            if isinstance(fragment, int):
                ids.append(fragment)
                after_special = self.vocab_type == "spm" and self._add_space_prefix
            else:
                ids += encode(" " + fragment if after_special else fragment)
                after_special = False
        if add_special and has_bos:
            last = self.ids.sep if self.vocab_type == "wpm" else self.ids.eos
            if last is not None and (self.add_eos or self.vocab_type == "wpm"):
                ids.append(last)
        return ids

    def piece(self, token: int, *, special: bool = True) -> bytes:
        if token < 0:
            raise IndexError(token)
        if not special and self._vocab.attributes[token] & (CONTROL | UNKNOWN):
            return b""
        return self._vocab.piece(token)

    def detokenize(self, tokens: Sequence[int], *, special: bool) -> bytes:
        pieces = [self.piece(token, special=special) for token in tokens]
        if pieces and self._add_space_prefix:
            pieces[0] = pieces[0].removeprefix(b" ")
        text = b"".join(pieces)
        return clean_spaces(text) if self._clean_spaces else text

    def token_text(self, token: int) -> str:
        return self._vocab.texts[token]

    def text_to_token(self, text: str) -> int | None:
        return self._vocab.ids.get(text)

    def token_score(self, token: int) -> float:
        return self._vocab.scores[token]

    def is_control(self, token: int) -> bool:
        return self._vocab.has(token, CONTROL)

    def is_user_defined(self, token: int) -> bool:
        return self._vocab.has(token, USER_DEFINED)

    def is_unused(self, token: int) -> bool:
        return self._vocab.has(token, UNUSED)

    def is_byte(self, token: int) -> bool:
        return self._vocab.has(token, BYTE)

    def _pre_tokenizer(self, metadata: Mapping[str, Any], model: str) -> PreTokenizer:
        name = "gemma4" if model == "gemma4" else metadata.get("tokenizer.ggml.pre") or ""
        if self.vocab_type != "bpe":
            return PreTokenizer(())
        if name not in PRE_TOKENIZERS:
            raise UnsupportedTokenizer(f"unknown pre-tokenizer type: '{name}'")
        return PRE_TOKENIZERS[name]

    def _read_switches(self, metadata: Mapping[str, Any], pre: PreTokenizer) -> None:
        kind = self.vocab_type

        def switch(name: str, default: bool) -> bool:
            value = metadata.get(f"tokenizer.ggml.{name}")
            return default if value is None else bool(value)

        self.add_bos = switch("add_bos_token", pre.add_bos or kind in ("spm", "wpm"))
        # Gemma 4 files say no and mean yes.
        self.add_bos = self.add_bos or pre.whole_newlines
        self.add_eos = switch("add_eos_token", kind == "ugm")
        self.add_sep = switch("add_sep_token", pre.add_sep or kind == "wpm")
        self._add_space_prefix = switch("add_space_prefix", kind == "spm")
        self._merge_spaces = switch("remove_extra_whitespaces", False)
        self._clean_spaces = pre.clean_spaces if kind == "bpe" else kind == "wpm"
        no_lowercase = metadata.get("tokenizer.ggml.pre") == "whitespace"
        self._lowercase = switch("normalizer.lowercase", not no_lowercase)
        self._strip_accents = switch("normalizer.strip_accents", self._lowercase)

    def _make_encoder(self, metadata: Mapping[str, Any], model: str, pre: PreTokenizer) -> _Encoder:
        vocab, unk = self._vocab, self.ids.unk
        if self.vocab_type == "spm":
            return SpmEncoder(vocab)
        if self.vocab_type == "wpm":
            return WpmEncoder(
                vocab, unk, lowercase=self._lowercase, strip_accents=self._strip_accents
            )
        if self.vocab_type == "ugm":
            if unk is None:
                raise UnsupportedTokenizer("a t5 vocabulary needs an unknown token")
            return UgmEncoder(
                vocab,
                metadata,
                unk,
                add_space_prefix=self._add_space_prefix,
                merge_spaces=self._merge_spaces,
            )
        if self.vocab_type == "rwkv":
            return RwkvEncoder(vocab, unk)
        if self.vocab_type == "plamo2":
            return Plamo2Encoder(vocab)
        bpe = BpeEncoder(vocab, metadata, pre)
        if model == "whitespace":
            return WhitespaceEncoder(bpe, self._lowercase)
        if model == "hybriddna":
            by_text = dict(vocab.ids)
            first = vocab.ids.get("<oov>", self.n_tokens)
            for token in range(first + 1, self.n_tokens):
                vocab.texts[token] = vocab.texts[token].removesuffix(DNA_MARKER)
            return DnaEncoder(bpe, by_text)
        return bpe

    def _newline(self, default_pad: int | None) -> int | None:
        if self.vocab_type == "wpm":
            return default_pad
        if self.vocab_type == "spm":
            token = self._vocab.byte_token(0x0A)
            return default_pad if token is None else token
        ids = self._encoder.encode("\n")
        return ids[0] if ids else default_pad

    def _set_strip_attributes(self, metadata: Mapping[str, Any]) -> None:
        """White space beside some models' special tokens belongs to those tokens."""
        pre = metadata.get("tokenizer.ggml.pre") or ""
        arch = metadata.get("general.architecture") or ""
        name = (metadata.get("general.name") or "").lower()
        if any(x in pre for x in ("jina-v2-de", "jina-v2-es", "jina-v2-code")) or any(
            x in arch for x in ("nomic-bert-moe", "jina-bert-v3")
        ):
            self._set_attribute("<mask>", LSTRIP)
        elif "phi-3" in name or "phi3" in name:
            for token in self._partition.special:
                self._vocab.attributes[token] |= RSTRIP
            self._set_attribute("</s>", RSTRIP)
            for text in ("<unk>", "<s>", "<|endoftext|>"):
                token_or_none = self._vocab.ids.get(text)
                if token_or_none is not None:
                    self._vocab.attributes[token_or_none] &= ~RSTRIP
        elif "modern-bert" in name:
            self._set_attribute("[MASK]", LSTRIP)

    def _set_attribute(self, text: str, attribute: int) -> None:
        token = self._vocab.ids.get(text)
        if token is not None:
            self._vocab.attributes[token] |= attribute
