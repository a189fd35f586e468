"""Sentencepiece BPE vocabularies: neighbours merge by score over the whole text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import pairwise

from engine.tokenizer.text import characters, is_valid
from engine.tokenizer.vocab import SPACE, Vocab

_CACHE_CHUNKS = 1 << 16

#: Longer chunks are cut once more before they merge.
_LONG = 24


class SpmEncoder:
    """Encodes text without special tokens (`llm_tokenizer_spm`).

    The text is first cut wherever no token spans two neighbouring characters, which changes
    no merge and lets repeated words be looked up.
    """

    def __init__(self, vocab: Vocab) -> None:
        self._ids = vocab.ids
        self._scores = list(vocab.scores)
        self._bytes = [vocab.byte_token(byte) for byte in range(256)]
        self._cache: dict[str, list[int]] = {}
        before_space = {
            text[at - 1]
            for text in vocab.texts
            if SPACE in text
            for at in range(1, len(text))
            if text[at] == SPACE and text[at - 1] != SPACE
        }
        self._chunks = _chunk_pattern(before_space)
        self._pairs: set[str] | None = None

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, in which spaces are not yet escaped."""
        text = text.replace(" ", SPACE)
        if not is_valid(text):
            # Undecodable bytes swallow their neighbours, so that chunks can't be told yet.
            return [id for part in self._cut(text) for id in self._merge(part)]
        ids: list[int] = []
        cache = self._cache
        for chunk in self._chunks.findall(text):
            found = cache.get(chunk)
            if found is None:
                found = [id for part in self._cut(chunk) for id in self._merge(part)]
                if len(cache) >= _CACHE_CHUNKS:
                    cache.clear()
                cache[chunk] = found
            ids += found
        return ids

    def _cut(self, chunk: str) -> Iterator[list[str]]:
        symbols = characters(chunk)
        if len(symbols) <= _LONG:
            yield symbols
            return
        if self._pairs is None:
            self._pairs = {a + b for text in self._ids for a, b in pairwise(characters(text))}
        start = 0
        for at, pair in enumerate(pairwise(symbols), 1):
            if "".join(pair) not in self._pairs:
                yield symbols[start:at]
                start = at
        yield symbols[start:]

    def _merge(self, symbols: list[str]) -> Iterator[int]:
        ids, scores = self._ids, self._scores
        n = len(symbols)
        before = list(range(-1, n - 1))
        after = [*range(1, n), -1]
        queue: list[tuple[float, int, int, str]] = []
        for left in range(n - 1):
            text = symbols[left] + symbols[left + 1]
            id = ids.get(text)
            if id is not None:
                queue.append((-scores[id], left, left + 1, text))
        heapify(queue)
        while queue:
            _, left, right, text = heappop(queue)
            # Stale when either side has merged since; emptied symbols add up to no such text.
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != text:
                continue
            symbols[left], symbols[right] = text, ""
            follower = after[left] = after[right]
            if follower >= 0:
                before[follower] = left
            for a, b in ((before[left], left), (left, follower)):
                if a >= 0 and b >= 0:
                    text = symbols[a] + symbols[b]
                    id = ids.get(text)
                    if id is not None:
                        heappush(queue, (-scores[id], a, b, text))
        for symbol in symbols:
            if symbol:
                id = ids.get(symbol)
                if id is not None:
                    yield id
                else:
                    for byte in symbol.encode("utf-8", "surrogateescape"):
                        fallback = self._bytes[byte]
                        if fallback is not None:
                            yield fallback


def _chunk_pattern(before_space: set[str]) -> re.Pattern[str]:
    """Runs of spaces with the word after them, and on past a space that a token may span."""
    goes_on = ""
    if before_space:
        inside = "".join(map(re.escape, sorted(before_space)))
        goes_on = f"(?:(?<=[{inside}]){SPACE}+[^{SPACE}]*)*"
    return re.compile(f"{SPACE}*[^{SPACE}]+{goes_on}|{SPACE}+")
