"""A vocabulary's tokens by their characters, for asking a grammar about all of them at once."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.grammar.utf8 import WHOLE, Partial, decode

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab

Points = tuple[int, ...]


class Pieces:
    """A vocabulary's pieces, decoded once, and a tree of the tokens that begin with a character.

    The tree's nodes are numbered breadth first, from the root's 0; `levels` says where each
    depth begins. Node n is behind `parent_of[n]` for the character `points[point_of[n]]`, its
    children are those from `children[n]` to `children[n + 1]`. `tokens[i]` ends at node
    `node_of[i]`; the last ones end in the midst of a character, as `cuts[cut_of[j]]` says. The
    tokens that end at node n are those at `by_node[ended[n]:ended[n + 1]]`.
    """

    def __init__(self, vocab: Vocab, n_vocab: int) -> None:
        self.pieces = [vocab.piece(token, special=True) for token in range(n_vocab)]
        self.ends = [token for token in range(n_vocab) if vocab.is_eog(token)]
        # Tokens that can complete a character begin with a continuation byte, and only they do.
        self.continuing: list[int] = []
        texts: list[tuple[int, str]] = []
        others: list[tuple[int, Points]] = []
        cut_off: list[tuple[int, Points, Partial]] = []
        ends = set(self.ends)
        for token, piece in enumerate(self.pieces):
            if token in ends or not piece or piece[0] == 0:
                continue
            if 0x80 <= piece[0] < 0xC0:
                self.continuing.append(token)
                continue
            text = _text(piece)
            if text is not None:
                texts.append((token, text))
                continue
            points, partial = decode(piece, WHOLE)
            if partial.missing > 0:
                cut_off.append((token, points, partial))
            elif not partial.missing:
                others.append((token, points))
        self.cuts = list(dict.fromkeys(partial for _, _, partial in cut_off))
        numbers = {partial: number for number, partial in enumerate(self.cuts)}
        self.cut_of = np.array([numbers[partial] for _, _, partial in cut_off], dtype=np.intp)
        self._grow(texts, [*others, *((token, points) for token, points, _ in cut_off)])

    @property
    def n_vocab(self) -> int:
        return len(self.pieces)

    def below(self, node: int) -> NDArray[np.intp]:
        """Every token with more than this node's characters."""
        first, last = int(self.children[node]), int(self.children[node + 1])
        inside = np.zeros(len(self.point_of), dtype=np.bool_)
        while first < last:
            inside[first:last] = True
            first, last = int(self.children[first]), int(self.children[last])
        return self.tokens[inside[self.node_of]]

    def _grow(self, texts: list[tuple[int, str]], others: list[tuple[int, Points]]) -> None:
        """Make the tree, one character of all tokens after the other."""
        self.tokens = np.array([token for token, _ in (*texts, *others)], dtype=np.intp)
        joined = "".join(text for _, text in texts).encode("utf-32-le")
        further = np.array([point for _, points in others for point in points], dtype=np.uint32)
        flat = np.concatenate((np.frombuffer(joined, dtype=np.uint32), further))
        self.points, which = np.unique(flat, return_inverse=True)
        lengths = np.array([len(entry) for _, entry in (*texts, *others)], dtype=np.intp)
        starts = np.cumsum(lengths) - lengths
        self.node_of = np.zeros(len(lengths), dtype=np.intp)
        parents, points, n_nodes = [np.zeros(1, dtype=np.intp)], [np.zeros(1, dtype=np.intp)], 1
        self.levels = [0, 1]
        longer = np.flatnonzero(lengths)
        at = 0
        while len(longer):
            keys = self.node_of[longer] * len(self.points) + which[starts[longer] + at]
            new, numbers = np.unique(keys, return_inverse=True)
            self.node_of[longer] = n_nodes + numbers
            parents.append(new // len(self.points))
            points.append(new % len(self.points))
            n_nodes += len(new)
            self.levels.append(n_nodes)
            at += 1
            longer = longer[lengths[longer] > at]
        self.point_of = np.concatenate(points)
        self.parent_of = np.concatenate(parents)
        self.children = 1 + np.searchsorted(self.parent_of[1:], np.arange(n_nodes + 1))
        self.by_node = np.argsort(self.node_of, kind="stable")
        self.ended = np.searchsorted(self.node_of[self.by_node], np.arange(n_nodes + 1))


def _text(piece: bytes) -> str | None:
    """A whole piece's characters, where Python and llama.cpp decode alike."""
    if b"\0" in piece:
        return None
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


_building = Lock()


def pieces_of(vocab: Vocab, n_vocab: int) -> Pieces:
    """The pieces of a vocabulary, kept for the next grammar; on any thread.

    The first call takes up to a second, so make it where nothing waits.
    """
    with _building:
        return _pieces_of(vocab, n_vocab)


@lru_cache(maxsize=2)
def _pieces_of(vocab: Vocab, n_vocab: int) -> Pieces:
    return Pieces(vocab, n_vocab)
