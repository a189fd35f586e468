"""BERT's WordPiece: normalised words, each from the longest pieces that cover it."""

from __future__ import annotations

from engine.tokenizer.text import lenient
from engine.tokenizer.unicode_categories import CATEGORIES, WHITESPACE, base, lower
from engine.tokenizer.vocab import SPACE, Vocab

_CACHE_WORDS = 1 << 16

_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WpmEncoder:
    """Encodes text without special tokens (`llm_tokenizer_wpm`)."""

    def __init__(
        self, vocab: Vocab, unk: int | None, *, lowercase: bool, strip_accents: bool
    ) -> None:
        self._ids = vocab.ids
        self._longest = max(map(len, vocab.texts), default=0)
        self._unk = unk
        self._lowercase = lowercase
        self._strip_accents = strip_accents
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The ids of the words of `text`; a word no pieces cover is the unknown token."""
        ids: list[int] = []
        for word in self._words(lenient(text)):
            found = self._cache.get(word)
            if found is None:
                found = self._pieces(SPACE + word)
                if len(self._cache) >= _CACHE_WORDS:
                    self._cache.clear()
                self._cache[word] = found
            ids += found
        return ids

    def _words(self, text: str) -> list[str]:
        out: list[str] = []
        for char in text:
            if self._strip_accents:
                char = base(char)
            category = CATEGORIES[ord(char)]
            if char in WHITESPACE:
                out.append(" ")
            elif char in "\0\ufffd" or category == "C":
                continue
            elif not (self._strip_accents and category == "M"):
                alone = category == "P" or (category == "S" and char < "\x7f") or _is_han(char)
                char = lower(char) if self._lowercase else char
                out.append(f" {char} " if alone else char)
        return [word for word in "".join(out).split(" ") if word]

    def _pieces(self, word: str) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                id = self._ids.get(word[start:end])
                if id is not None:
                    ids.append(id)
                    start = end
                    break
            else:
                ids = []
                break
        return ids or ([] if self._unk is None else [self._unk])


def _is_han(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _HAN)
