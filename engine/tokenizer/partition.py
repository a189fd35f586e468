"""Splitting a text at its special tokens before anything else is tokenised."""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.tokenizer.vocab import CONTROL, LSTRIP, RSTRIP, UNKNOWN, USER_DEFINED, Vocab, to_bytes

_C_SPACE = " \t\n\v\f\r"


class Partition:
    """Finds special tokens in text, the longest first wherever it stands (`st_partition`)."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        special = [
            token
            for token, attributes in enumerate(vocab.attributes)
            if attributes & (CONTROL | USER_DEFINED | UNKNOWN)
        ]
        self.special = sorted(special, key=lambda token: -len(to_bytes(vocab.texts[token])))
        plain = [token for token in self.special if not vocab.has(token, CONTROL | UNKNOWN)]
        self._all = _Finder(vocab, self.special)
        self._user_defined = _Finder(vocab, plain)

    def split(self, text: str, *, parse_special: bool) -> list[str | int]:
        """Text fragments and token ids; only user-defined tokens unless `parse_special`."""
        if not text:
            return []
        finder = self._all if parse_special else self._user_defined
        fragments: list[str | int] = [text]
        for token in finder.present(text):
            split: list[str | int] = []
            for fragment in fragments:
                if isinstance(fragment, int):
                    split.append(fragment)
                else:
                    self._cut(fragment, token, split)
            fragments = split
        return fragments

    def _cut(self, text: str, token: int, out: list[str | int]) -> None:
        special, attributes = self._vocab.texts[token], self._vocab.attributes[token]
        start = 0
        while (at := text.find(special, start)) >= 0:
            left = text[start:at]
            if attributes & LSTRIP:
                left = left.rstrip(_C_SPACE)
            if left:
                out.append(left)
            out.append(token)
            start = at + len(special)
            if attributes & RSTRIP:
                start += len(text) - start - len(text[start:].lstrip(_C_SPACE))
        if start < len(text):
            out.append(text[start:])


class _Finder:
    """Tells quickly which of many tokens a text can hold, in the order given."""

    def __init__(self, vocab: Vocab, tokens: list[int]) -> None:
        self._rank = {vocab.texts[token]: rank for rank, token in enumerate(tokens)}
        self._tokens = tokens
        # A lookahead, so that every position is tried and overlapping tokens are all seen.
        self._pattern = re.compile(f"(?=({_any_of(self._rank)}))") if tokens else None

    def present(self, text: str) -> list[int]:
        if self._pattern is None:
            return []
        ranks = set()
        for longest in set(self._pattern.findall(text)):
            for end in range(1, len(longest) + 1):
                rank = self._rank.get(longest[:end])
                if rank is not None:
                    ranks.add(rank)
        return [self._tokens[rank] for rank in sorted(ranks)]


def _any_of(texts: Collection[str]) -> str:
    """A pattern that matches the longest of `texts`, each position deciding by one character."""
    if max(map(len, texts)) < 64:
        return _branch(sorted(texts), 0)
    # Nested as deep as the longest text, which `re` limits.
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def _branch(texts: list[str], depth: int) -> str:
    ends = len(texts[0]) == depth
    rest = texts[1:] if ends else texts
    groups: dict[str, list[str]] = {}
    for text in rest:
        groups.setdefault(text[depth], []).append(text)
    branches = []
    for char, group in groups.items():
        if len(group) == 1:
            branches.append(re.escape(group[0][depth:]))
        else:
            branches.append(re.escape(char) + _branch(group, depth + 1))
    if not branches:
        return ""
    pattern = branches[0] if len(branches) == 1 and not ends else f"(?:{'|'.join(branches)})"
    return pattern + "?" if ends else pattern
