"""Byte-pair encoding: words by llama.cpp's rules, merges by the `tokenizers` library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers.models import BPE

from engine.tokenizer.presplit import compile_cutters, split
from engine.tokenizer.pretokenizers import PreTokenizer
from engine.tokenizer.text import is_valid, lenient
from engine.tokenizer.unicode_categories import WHITESPACE, lower
from engine.tokenizer.vocab import (
    BYTE_TO_CHAR,
    DNA_MARKER,
    SPACE,
    UnsupportedTokenizer,
    Vocab,
    to_bytes,
)

#: Words remembered with their ids, over the life of a tokenizer.
_CACHE_WORDS = 1 << 16


class BpeEncoder:
    """Encodes text without special tokens, with one BPE vocabulary."""

    def __init__(self, vocab: Vocab, metadata: Mapping[str, Any], pre: PreTokenizer) -> None:
        merges = metadata.get("tokenizer.ggml.merges")
        if merges is None:
            if metadata.get("tokenizer.ggml.pre") != "kimi-k2":
                raise UnsupportedTokenizer("cannot find tokenizer merges in model file")
            merges = []
        self._vocab = vocab
        self._pre = pre
        self._cutters = compile_cutters(pre.patterns)
        self._cache: dict[str, list[int]] = {}
        self._extra: list[list[int]] = []
        self._model = self._build(merges)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, whose undecodable bytes count as U+FFFD."""
        return self.encode_points(lenient(text))

    def encode_points(self, text: str) -> list[int]:
        """The ids of code points, lone surrogates among them."""
        if self._pre.escape_space:
            text = text.replace(" ", SPACE)
        ids: list[int] = []
        cache = self._cache
        for word in split(text, self._cutters):
            found = cache.get(word)
            if found is None:
                found = self._encode_word(word)
                if len(cache) >= _CACHE_WORDS:
                    cache.clear()
                cache[word] = found
            ids += found
        return ids

    def _encode_word(self, word: str) -> list[int]:
        if self._pre.byte_encode:
            raw = word.encode("utf-8", "surrogatepass")
            word = "".join([BYTE_TO_CHAR[byte] for byte in raw])
        whole = self._vocab.ids.get(word)
        newlines = self._pre.whole_newlines and not word.strip("\n")
        if whole is not None and (self._pre.ignore_merges or newlines):
            return [whole]
        ids: list[int] = []
        # A lone surrogate can't reach the library, and no merge knows one.
        for part in re.split("([\ud800-\udfff])", word):
            if "\ud800" <= part <= "\udfff" and len(part) == 1:
                for byte in part.encode("utf-8", "surrogatepass"):
                    ids += self._byte(byte)
            elif part:
                ids += [token.id for token in self._model.tokenize(part)]
        n = len(self._vocab)
        if self._extra and ids and max(ids) >= n:
            return [i for id in ids for i in (self._extra[id - n] if id >= n else [id])]
        return ids

    def _build(self, merges: list[str]) -> BPE:
        """The library's model, with ids above the vocabulary for what merges make outside of it."""
        known = self._vocab.ids
        if len(set(merges)) != len(merges):
            merges = list(dict.fromkeys(merges))
        pairs = [(m[:cut], m[cut + 1 :]) for m in merges if (cut := m.find(" ", 1)) >= 0]
        ids = dict(known)
        if not is_valid("".join(self._vocab.texts)):
            ids = {text: id for text, id in known.items() if is_valid(text)}
        if self._pre.byte_encode:
            self._add_missing(ids, BYTE_TO_CHAR.values())
        else:
            self._add_missing(ids, [f"<0x{byte:02X}>" for byte in range(256)])
        fallback = not self._pre.byte_encode
        try:
            return BPE(ids, pairs, byte_fallback=fallback)
        except Exception:
            # The library's only error here is a merge of or to what is no token: rare, and legal.
            self._add_missing(ids, [text for a, b in pairs for text in (a, b, a + b)])
            return BPE(ids, pairs, byte_fallback=fallback)

    def _add_missing(self, ids: dict[str, int], texts: Iterable[str]) -> None:
        for text in texts:
            if text not in ids:
                ids[text] = len(self._vocab) + len(self._extra)
                self._extra.append(self._spell(text))

    def _spell(self, text: str) -> list[int]:
        """The ids of a symbol that is no token: its bytes, those that are tokens."""
        if not self._pre.byte_encode and text.startswith("<0x") and len(text) == 6:
            return []
        return [id for byte in to_bytes(text) for id in self._byte(byte)]

    def _byte(self, byte: int) -> list[int]:
        if self._pre.byte_encode:
            id = self._vocab.ids.get(bytes([byte]).decode("utf-8", "surrogateescape"))
        else:
            id = self._vocab.ids.get(f"<0x{byte:02X}>")
        return [] if id is None else [id]


class WhitespaceEncoder:
    """BPE over the words between white space, the space itself dropped (`whitespace` models)."""

    def __init__(self, bpe: BpeEncoder, lowercase: bool) -> None:
        self._bpe = bpe
        self._lowercase = lowercase

    def encode(self, text: str) -> list[int]:
        """The ids of the words of `text`."""
        text = lenient(text)
        if self._lowercase:
            text = "".join(map(lower, text))
        words = "".join(" " if char in WHITESPACE else char for char in text).split(" ")
        return [id for word in words if word for id in self._bpe.encode_points(word)]


class DnaEncoder:
    """BPE with `<dna>…</dna>` spans read six bases a token (`hybriddna` models)."""

    def __init__(self, bpe: BpeEncoder, ids: Mapping[str, int]) -> None:
        self._bpe = bpe
        self._ids = ids

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; all of it is BPE when the vocabulary has no DNA tokens."""
        begin, end = self._ids.get("<dna>"), self._ids.get("</dna>")
        unknown = self._ids.get("<oov>")
        if begin is None or end is None or unknown is None:
            return self._bpe.encode(text)
        ids: list[int] = []
        while text:
            before, opened, text = text.partition("<dna>")
            ids += self._bpe.encode(before) if before else []
            if not opened:
                break
            ids.append(begin)
            bases, closed, text = text.partition("</dna>")
            bases = "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in bases)
            raw = bases.encode("utf-8", "surrogateescape")
            for start in range(0, len(raw), 6):
                mer = raw[start : start + 6].ljust(6, b"A").decode("utf-8", "surrogateescape")
                ids.append(self._ids.get(mer + DNA_MARKER, unknown))
            if closed:
                ids.append(end)
        return ids
