"""A vocabulary's tokens by their characters, for asking a grammar about all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.grammar.utf8 import WHOLE, Partial, decode

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab


class Node:
    """The tokens that begin with the same characters."""

    __slots__ = ("children", "partial", "whole")

    def __init__(self) -> None:
        self.children: dict[int, Node] = {}
        self.whole: list[int] = []  # tokens that end here
        self.partial: dict[Partial, list[int]] = {}  # tokens that end with a character cut off

    def below(self) -> Iterator[int]:
        """Every token with more than this node's characters."""
        pending = list(self.children.values())
        while pending:
            node = pending.pop()
            yield from node.whole
            for tokens in node.partial.values():
                yield from tokens
            pending += node.children.values()


class Pieces:
    """A vocabulary's pieces, decoded once."""

    def __init__(self, vocab: Vocab, n_vocab: int) -> None:
        self.pieces = [vocab.piece(token, special=True) for token in range(n_vocab)]
        self.ends = [token for token in range(n_vocab) if vocab.is_eog(token)]
        self.root = Node()
        # By character: the tokens that have it, once or more often.
        self.having: dict[int, list[int]] = {}
        self.whole: list[int] = []
        self.cut_off: dict[Partial, list[int]] = {}
        # Tokens that can complete a character begin with a continuation byte, and only they do.
        self.continuing: list[int] = []
        ends = set(self.ends)
        for token, piece in enumerate(self.pieces):
            if token in ends or not piece or piece[0] == 0:
                continue
            if 0x80 <= piece[0] < 0xC0:
                self.continuing.append(token)
            else:
                self._add(token, piece)

    def _add(self, token: int, piece: bytes) -> None:
        points, partial = _decode(piece)
        if partial.missing < 0:
            return
        for point in set(points):
            self.having.setdefault(point, []).append(token)
        node = self.root
        for point in points:
            node = node.children.setdefault(point, Node())
        if partial.missing:
            node.partial.setdefault(partial, []).append(token)
            self.cut_off.setdefault(partial, []).append(token)
        else:
            node.whole.append(token)
            self.whole.append(token)


def _decode(piece: bytes) -> tuple[tuple[int, ...], Partial]:
    """A whole piece's characters; the quick way where Python and llama.cpp agree."""
    if b"\0" not in piece:
        try:
            return tuple(map(ord, piece.decode())), WHOLE
        except UnicodeDecodeError:
            pass
    return decode(piece, WHOLE)


@lru_cache(maxsize=2)
def pieces_of(vocab: Vocab, n_vocab: int) -> Pieces:
    """The pieces of a vocabulary, kept for the next grammar."""
    return Pieces(vocab, n_vocab)
