"""RWKV's vocabulary: always the longest token that the rest of the text begins with."""

from __future__ import annotations

from engine.tokenizer.vocab import Vocab, to_bytes, unescape_rwkv


class RwkvEncoder:
    """Encodes text without special tokens (`llm_tokenizer_rwkv`)."""

    def __init__(self, vocab: Vocab, unk: int | None) -> None:
        self._unk = unk
        self._ids = {unescape_rwkv(text): id for id, text in enumerate(vocab.texts)}
        sizes: dict[int, set[int]] = {}
        for raw in self._ids:
            if raw:
                sizes.setdefault(raw[0], set()).add(len(raw))
        self._sizes = {first: sorted(found, reverse=True) for first, found in sizes.items()}

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; a byte no token begins with is the unknown token, if there is one."""
        raw = to_bytes(text)
        ids: list[int] = []
        at = 0
        while at < len(raw):
            for size in self._sizes.get(raw[at], ()):
                id = self._ids.get(raw[at : at + size])
                if id is not None and at + size <= len(raw):
                    ids.append(id)
                    at += size
                    break
            else:
                if self._unk is not None:
                    ids.append(self._unk)
                at += 1
        return ids
