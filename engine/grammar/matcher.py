"""Follows a grammar through a text and says which tokens may come next."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.grammar.automaton import EMPTY, Automaton, State
from engine.grammar.pieces import pieces_of
from engine.grammar.rules import Grammar
from engine.grammar.table import Table
from engine.grammar.utf8 import WHOLE, Partial, decode

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab

_REMEMBERED = 64  # masks kept; a text moves between few states
_MOST_STATES = 20_000  # states and stacks a grammar may come to before they are forgotten

Mask = NDArray[np.bool_]


class _Compiled:
    """What texts under the same grammar share."""

    def __init__(self, grammar: Grammar, vocab: Vocab, n_vocab: int) -> None:
        self.automaton = Automaton(grammar)
        self.pieces = pieces_of(vocab, n_vocab)
        self.table = None if self.automaton.has_tokens else Table(self.automaton, self.pieces)
        self.masks: dict[tuple[State, Partial], Mask] = {}


@lru_cache(maxsize=4)
def _compiled(grammar: Grammar, vocab: Vocab, n_vocab: int) -> _Compiled:
    return _Compiled(grammar, vocab, n_vocab)


class Matcher:
    """One text's way through a grammar, by llama.cpp's rules."""

    def __init__(self, grammar: Grammar, vocab: Vocab, n_vocab: int) -> None:
        compiled = _compiled(grammar, vocab, n_vocab)
        if compiled.automaton.size > _MOST_STATES:
            _compiled.cache_clear()
            compiled = _compiled(grammar, vocab, n_vocab)
        self._automaton, self._table = compiled.automaton, compiled.table
        self._pieces, self._masks = compiled.pieces, compiled.masks
        self._n_vocab = n_vocab
        self._ends = frozenset(self._pieces.ends)
        self._state = self._automaton.start
        self._partial = WHOLE

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        if token in self._ends:
            return self._state.may_end
        piece = self._pieces.pieces[token]
        return bool(piece) and piece[0] != 0 and self._takes(token, piece)

    def mask(self) -> Mask:
        """Which tokens may come next: bool [n_vocab], not to be written."""
        key = (self._state, self._partial)
        found = self._masks.get(key)
        if found is None:
            found = self._compute_mask()
            found.flags.writeable = False
            if len(self._masks) >= _REMEMBERED:
                self._masks.pop(next(iter(self._masks)))
            self._masks[key] = found
        return found

    def accept(self, token: int) -> None:
        """Go on with a chosen token; raises ValueError where the grammar has no way on."""
        if token not in self._ends or not self._state.may_end:
            self.accept_piece(token, self._pieces.pieces[token])

    def piece(self, token: int) -> bytes:
        """The text of a token, special ones included."""
        return self._pieces.pieces[token]

    def accept_piece(self, token: int, piece: bytes) -> None:
        """Go on with a part of a token's text; raises ValueError as `accept` does."""
        points, self._partial = decode(piece, self._partial)
        automaton, state = self._automaton, self._state
        by_token = automaton.step_token(state, token)
        # Behind its end a text has nothing more, and what waits for a token has had it.
        going_on = automaton.state(state.stacks - {EMPTY, *automaton.awaiting_tokens(state)})
        for point in points:
            going_on = automaton.step(going_on, point)
        self._state = automaton.state(by_token | going_on.stacks)
        if not self._state:
            shown = piece.decode(errors="replace")
            raise ValueError(
                f"Unexpected empty grammar stack after accepting piece: {shown} ({token})"
            )

    def _takes(self, token: int, piece: bytes) -> bool:
        points, partial = decode(piece, self._partial)
        state = self._state
        for point in points:
            # llama.cpp asks for the whole token's id even inside it.
            if state.awaits_token and self._automaton.takes_token(state, token):
                return True
            state = self._automaton.step(state, point)
            if not state:
                return False
        if partial.missing:
            return self._automaton.may_continue(state, partial)
        return bool(state)

    def _compute_mask(self) -> Mask:
        pieces, state = self._pieces, self._state
        if self._partial.missing:
            # Only a continuation byte can follow.
            allowed = np.zeros(self._n_vocab, dtype=np.bool_)
            for token in pieces.continuing:
                allowed[token] = self._takes(token, pieces.pieces[token])
        elif self._table is None:
            allowed = np.zeros(self._n_vocab, dtype=np.bool_)
            allowed[self._reachable()] = True
        else:
            allowed = self._table.allowed(state)
        allowed[pieces.ends] = state.may_end
        return allowed

    def _reachable(self) -> list[int]:
        """The tokens that a grammar takes which asks for some as such."""
        automaton, pieces = self._automaton, self._pieces
        ending: dict[int, list[int]] = {}
        for at, node in enumerate(pieces.node_of.tolist()):
            ending.setdefault(node, []).append(at)
        n_whole = len(pieces.tokens) - len(pieces.cut_of)
        tokens: list[int] = []
        pending: list[tuple[int, State]] = [(0, self._state)]
        while pending:
            node, state = pending.pop()
            for at in ending.get(node, ()):
                cut = None if at < n_whole else pieces.cuts[pieces.cut_of[at - n_whole]]
                if cut is None or automaton.may_continue(state, cut):
                    tokens.append(int(pieces.tokens[at]))
            if state.awaits_token:
                named, all_others = automaton.named_tokens(state)
                tokens += [t for t in named if t < self._n_vocab and self.allows(t)]
                if all_others:
                    tokens += [token for token in pieces.below(node).tolist() if token not in named]
                    continue
            for child in range(int(pieces.children[node]), int(pieces.children[node + 1])):
                reached = automaton.step(state, int(pieces.points[pieces.point_of[child]]))
                if reached:
                    pending.append((child, reached))
        return tokens
