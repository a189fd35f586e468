"""A GGUF vocabulary: texts, scores and attributes of the tokens, and the bytes they print as."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

VocabType = Literal["spm", "bpe", "wpm", "ugm", "rwkv", "plamo2"]

UNKNOWN = 1
UNUSED = 2
NORMAL = 4
CONTROL = 8
USER_DEFINED = 16
BYTE = 32
LSTRIP = 128
RSTRIP = 256

#: `tokenizer.ggml.token_type` to attributes; every other number gives none.
_ATTRIBUTES = {1: NORMAL, 2: UNKNOWN, 3: CONTROL, 4: USER_DEFINED, 5: UNUSED, 6: BYTE}

#: The space of sentencepiece vocabularies, U+2581.
SPACE = "\u2581"

#: Marks DNA k-mers apart from equal words; not part of what they print as.
DNA_MARKER = "\ue000"


class UnsupportedTokenizer(ValueError):
    """A vocabulary that this package can't tokenise with, told in one line."""


def _byte_alphabet() -> dict[int, str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + i) for i, byte in enumerate(others)
    }


#: GPT-2's alphabet: the character that stands for each byte, and back.
BYTE_TO_CHAR = _byte_alphabet()
CHAR_TO_BYTE = {char: byte for byte, char in BYTE_TO_CHAR.items()}


def to_bytes(text: str) -> bytes:
    """The bytes of a text whose undecodable bytes are surrogate escapes."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def array(metadata: Mapping[str, Any], key: str, n: int) -> list[Any] | None:
    """The first `n` values of an array, or None without the key; a short one is an error."""
    values = metadata.get(key)
    if values is None:
        return None
    if len(values) < n:
        raise UnsupportedTokenizer(f"{key} has {len(values)} entries for {n} tokens")
    return list(values[:n])


class Vocab:
    """What `tokenizer.ggml.tokens`, `.scores` and `.token_type` say; attributes may be changed."""

    def __init__(self, metadata: Mapping[str, Any], type: VocabType, escapes_space: bool) -> None:
        texts = metadata.get("tokenizer.ggml.tokens")
        if texts is None:
            raise UnsupportedTokenizer("cannot find tokenizer vocab in model file")
        self.type = type
        self.escapes_space = escapes_space
        self.texts: list[str] = list(texts)
        if "" in self.texts:
            self.texts = [text or f"[EMPTY_{i}]" for i, text in enumerate(self.texts)]
        self.ids: dict[str, int] = dict(zip(self.texts, range(len(self.texts)), strict=True))
        n = len(self.texts)
        self.scores: list[float] = array(metadata, "tokenizer.ggml.scores", n) or [0.0] * n
        types = array(metadata, "tokenizer.ggml.token_type", n)
        self.attributes: list[int] = (
            [_ATTRIBUTES.get(kind, 0) for kind in types] if types else [NORMAL] * n
        )
        self._pieces: list[bytes | None] = [None] * n

    def __len__(self) -> int:
        return len(self.texts)

    def has(self, token: int, attributes: int) -> bool:
        """Whether a token has one of these attributes."""
        return bool(self.attributes[token] & attributes)

    def piece(self, token: int) -> bytes:
        """What a token prints as, special tokens as their text (`llama_token_to_piece`)."""
        piece = self._pieces[token]
        if piece is None:
            piece = self._pieces[token] = self._make_piece(token)
        return piece

    def byte_token(self, byte: int) -> int | None:
        """The token of one byte: `<0xXX>`, or else the byte as a text of its own."""
        token = self.ids.get(f"<0x{byte:02X}>")
        if token is None:
            token = self.ids.get(bytes([byte]).decode("utf-8", "surrogateescape"))
        return token

    def _make_piece(self, token: int) -> bytes:
        text, attributes = self.texts[token], self.attributes[token]
        if self.type == "rwkv":
            if attributes & (UNKNOWN | CONTROL):
                return to_bytes(text)
            return unescape_rwkv(text)
        if self.type == "plamo2":
            return (byte_value(text) if attributes & BYTE else None) or to_bytes(text)
        if attributes & (UNKNOWN | CONTROL | USER_DEFINED):
            return to_bytes(text)
        if attributes & NORMAL:
            if self.type == "bpe" and not self.escapes_space:
                return unalphabet(text)
            return to_bytes(text.replace(SPACE, " "))
        if attributes & BYTE:
            return byte_value(text) or b""
        return b""


def byte_value(text: str) -> bytes | None:
    """The byte a text like `<0x0A>` names."""
    match = re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", text)
    return bytes.fromhex(match[1]) if match else None


def unalphabet(text: str) -> bytes:
    """The bytes that a text in GPT-2's byte alphabet stands for."""
    try:
        return bytes([CHAR_TO_BYTE[char] for char in text])
    except KeyError:
        return b"".join(
            bytes([CHAR_TO_BYTE[char]])
            if char in CHAR_TO_BYTE
            else b"[UNK_BYTE_0x" + to_bytes(char).hex().encode() + to_bytes(text) + b"]"
            for char in text
        )


def unescape_rwkv(text: str) -> bytes:
    r"""The bytes of an RWKV token, which is written with `\t`, `\n`, `\r` and `\xHH`."""

    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) == 3:
            return bytes([int(code[1:], 16)])
        return {b"t": b"\t", b"n": b"\n", b"r": b"\r"}.get(code, code)

    return re.sub(rb"\\(x[0-9A-Fa-f]{2}|.)", one, to_bytes(text), flags=re.DOTALL)


def as_ids(values: Sequence[Any], n: int) -> list[int]:
    """The values that are token ids."""
    return [int(value) for value in values if 0 <= int(value) < n]
