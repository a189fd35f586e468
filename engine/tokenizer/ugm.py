"""Unigram vocabularies (T5, XLM-R): a normaliser, then the best-scoring cut into tokens."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from typing import Any

from engine.tokenizer.text import char_len, code_point
from engine.tokenizer.vocab import (
    NORMAL,
    SPACE,
    UNUSED,
    USER_DEFINED,
    UnsupportedTokenizer,
    Vocab,
    to_bytes,
)

_UNKNOWN_PENALTY = 10.0


class UgmEncoder:
    """Encodes text without special tokens (`llm_tokenizer_ugm`)."""

    def __init__(
        self,
        vocab: Vocab,
        metadata: Mapping[str, Any],
        unk: int,
        *,
        add_space_prefix: bool,
        merge_spaces: bool,
    ) -> None:
        self._unk = unk
        self._space = SPACE.encode() if vocab.escapes_space else b" "
        self._add_space_prefix = add_space_prefix
        self._merge_spaces = merge_spaces
        self._charsmap = Charsmap.read(metadata.get("tokenizer.ggml.precompiled_charsmap"))
        self._scores: dict[bytes, tuple[int, float]] = {}
        self._user_prefixes: set[bytes] = set()
        self._longest_user = 0
        sizes: dict[bytes, set[int]] = {}
        worst = float("inf")
        for id, (text, attributes) in enumerate(zip(vocab.texts, vocab.attributes, strict=True)):
            raw = to_bytes(text)
            if attributes & NORMAL:
                worst = min(worst, vocab.scores[id])
            if attributes & (NORMAL | USER_DEFINED | UNUSED):
                score = 0.0 if attributes & USER_DEFINED else float(vocab.scores[id])
                self._scores[raw] = (id, score)
                sizes.setdefault(raw[: char_len(raw[0])], set()).add(len(raw))
            if attributes & USER_DEFINED:
                self._user_prefixes.update(raw[:end] for end in range(1, len(raw) + 1))
                self._longest_user = max(self._longest_user, len(raw))
        self._sizes = {first: sorted(found) for first, found in sizes.items()}
        # Single precision, as in the file.
        self._unknown_score: float = struct.unpack("f", struct.pack("f", worst - _UNKNOWN_PENALTY))[
            0
        ]

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; neighbouring unknown characters are one unknown token."""
        raw = self._normalise(to_bytes(text))
        n = len(raw)
        if not n:
            return []
        best = [float("-inf")] * (n + 1)
        best[0] = 0.0
        came: list[tuple[int, int]] = [(self._unk, 0)] * (n + 1)
        at = 0
        while at < n:
            size = min(char_len(raw[at]), n - at)
            here = best[at]
            whole = False
            for length in self._sizes.get(raw[at : at + size], ()):
                end = at + length
                found = self._scores.get(raw[at:end]) if end <= n else None
                if found is not None:
                    whole = whole or length == size
                    if here + found[1] > best[end]:
                        best[end] = here + found[1]
                        came[end] = (found[0], at)
            if not whole and here + self._unknown_score > best[at + size]:
                best[at + size] = here + self._unknown_score
                came[at + size] = (self._unk, at)
            at += size
        ids: list[int] = []
        while True:
            id, start = came[at]
            if id != self._unk or not ids or ids[-1] != self._unk:
                ids.append(id)
            if start == 0:
                return ids[::-1]
            at = start

    def _normalise(self, raw: bytes) -> bytes:
        out = bytearray()
        prefixed = False
        in_word = False
        at = 0
        while at < len(raw):
            piece, used = self._normal_prefix(raw, at)
            at += used
            for byte in piece:
                if byte != 0x20:
                    if not in_word:
                        in_word = True
                        if (self._add_space_prefix and not prefixed) or self._merge_spaces:
                            out += self._space
                            prefixed = True
                    out.append(byte)
                else:
                    in_word = False
                    if not self._merge_spaces:
                        out += self._space
        return bytes(out)

    def _normal_prefix(self, raw: bytes, at: int) -> tuple[bytes, int]:
        """What the text at an offset becomes, and how many bytes of it that covers."""
        end = at + 1
        while end <= len(raw) and raw[at:end] in self._user_prefixes:
            end += 1
        if end > at + 1:
            # Any beginning of a user-defined token is kept as it is, not whole ones alone.
            return raw[at : end - 1], end - 1 - at
        replaced = self._charsmap.longest(raw, at) if self._charsmap else None
        if replaced is not None:
            return replaced
        found = code_point(raw, at)
        if found is None:
            return b"\xef\xbf\xbd", 1
        return raw[at : at + found[1]], found[1]


class Charsmap:
    """Sentencepiece's precompiled replacements: a double array over UTF-8, then the strings."""

    def __init__(self, blob: bytes) -> None:
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 or size + 4 >= len(blob):
            raise UnsupportedTokenizer("the precompiled charsmap is cut short")
        self._nodes = array("I", struct.unpack(f"<{size // 4}I", blob[4 : 4 + size // 4 * 4]))
        self._strings = blob[4 + size :]

    @classmethod
    def read(cls, value: Any) -> Charsmap | None:
        """From a metadata value: bytes or a list of (signed) bytes."""
        if value is None:
            return None
        return cls(value if isinstance(value, bytes) else bytes(int(x) & 0xFF for x in value))

    def longest(self, raw: bytes, at: int) -> tuple[bytes, int] | None:
        """The replacement of the longest known text at an offset, and that text's size."""
        nodes = self._nodes
        node = _base(nodes[0]) if nodes else 0
        found: tuple[int, int] | None = None
        for end in range(at, len(raw)):
            byte = raw[end]
            node ^= byte
            if not byte or node >= len(nodes) or nodes[node] & 0x800000FF != byte:
                break
            packed = nodes[node]
            node ^= _base(packed)
            if packed >> 8 & 1 and node < len(nodes):
                found = (nodes[node] & 0x7FFFFFFF, end + 1 - at)
        if found is None:
            return None
        start, used = found
        stop = self._strings.find(b"\0", start)
        if start >= len(self._strings) or stop < 0:
            raise UnsupportedTokenizer("the precompiled charsmap points outside of itself")
        return self._strings[start:stop], used


def _base(packed: int) -> int:
    return (packed >> 10) << ((packed & 0x200) >> 6)
