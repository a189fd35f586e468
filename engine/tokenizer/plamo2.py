"""PLaMo-2's vocabulary: the cut with the best sum of rounded scores, found from the end."""

from __future__ import annotations

import math

from engine.tokenizer.text import lenient
from engine.tokenizer.vocab import BYTE, UnsupportedTokenizer, Vocab

_INVALID = -20_000_000
_UNKNOWN = -10_000_000


class Plamo2Encoder:
    """Encodes text without special tokens (`llm_tokenizer_plamo2`)."""

    def __init__(self, vocab: Vocab) -> None:
        self._bytes: list[int] = []
        for byte in range(256):
            id = vocab.ids.get(f"<0x{byte:02X}>")
            if id is None:
                raise UnsupportedTokenizer(f"Byte token for <0x{byte:02X}> is not set")
            self._bytes.append(id)
        self._tokens: dict[str, tuple[int, int]] = {}
        sizes: dict[str, set[int]] = {}
        for id, text in enumerate(vocab.texts):
            score = vocab.scores[id]
            if not vocab.has(id, BYTE) and math.isfinite(score):
                rounded = int(math.copysign(math.floor(abs(score * 1e4) + 0.5), score))
                if rounded > _INVALID:
                    self._tokens[text] = (id, rounded)
                    sizes.setdefault(text[0], set()).add(len(text))
        self._sizes = {first: sorted(found, reverse=True) for first, found in sizes.items()}

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without a byte order mark at its start."""
        text = lenient(text).removeprefix("\ufeff")
        n = len(text)
        costs = [0] * (n + 1)
        steps: list[tuple[int, int | None]] = [(1, None)] * n
        for at in range(n - 1, -1, -1):
            best = 1 << 60
            for size in self._sizes.get(text[at], ()):
                found = self._tokens.get(text[at : at + size]) if at + size <= n else None
                if found is not None and costs[at + size] - found[1] < best:
                    best = costs[at + size] - found[1]
                    steps[at] = (size, found[0])
            if costs[at + 1] - _UNKNOWN < best:
                best = costs[at + 1] - _UNKNOWN
                steps[at] = (1, None)
            costs[at] = best
        ids: list[int] = []
        at = 0
        while at < n:
            size, id = steps[at]
            if id is None:
                ids += [self._bytes[byte] for byte in text[at].encode("utf-8", "surrogatepass")]
            else:
                ids.append(id)
            at += size
        return ids
