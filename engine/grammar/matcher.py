"""Follows a grammar through a text and says which tokens may come next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.grammar.automaton import EMPTY, Automaton, State
from engine.grammar.pieces import Node, pieces_of
from engine.grammar.rules import Grammar
from engine.grammar.utf8 import WHOLE, Partial, decode

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab

_REMEMBERED = 64  # masks kept; a text moves between few states


class Matcher:
    """One text's way through a grammar, by llama.cpp's rules."""

    def __init__(self, grammar: Grammar, vocab: Vocab, n_vocab: int) -> None:
        self._automaton = Automaton(grammar)
        self._pieces = pieces_of(vocab, n_vocab)
        self._n_vocab = n_vocab
        self._ends = frozenset(self._pieces.ends)
        self._state = self._automaton.start
        self._partial = WHOLE
        self._masks: dict[tuple[State, Partial], NDArray[np.bool_]] = {}

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        if token in self._ends:
            return self._state.may_end
        piece = self._pieces.pieces[token]
        return bool(piece) and piece[0] != 0 and self._takes(token, piece)

    def mask(self) -> NDArray[np.bool_]:
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

    def _compute_mask(self) -> NDArray[np.bool_]:
        pieces, state = self._pieces, self._state
        allowed = np.zeros(self._n_vocab, dtype=np.bool_)
        if self._partial.missing:
            # Only a continuation byte can follow.
            self._ask(pieces.continuing, allowed)
        elif state.awaits_token or not self._take_what_stays(allowed):
            allowed[self._reachable()] = True
        allowed[pieces.ends] = state.may_end
        return allowed

    def _ask(self, tokens: Iterable[int], allowed: NDArray[np.bool_]) -> None:
        """Set what the grammar says of `tokens`, one by one."""
        for token in tokens:
            allowed[token] = self._takes(token, self._pieces.pieces[token])

    def _take_what_stays(self, allowed: NDArray[np.bool_]) -> bool:
        """Set the mask where most characters lead to one state and stay there, as in JSON strings.

        Tokens of such characters alone are allowed, the others are asked about; False if these
        are too many to be asked one by one.
        """
        pieces, state, step = self._pieces, self._state, self._automaton.step
        reached = {point: step(state, point) for point in pieces.having}
        if not reached:
            return False
        usual = Counter(reached.values()).most_common(1)[0][0]
        leaving = [
            tokens
            for point, tokens in pieces.having.items()
            if reached[point] is not usual or step(usual, point) is not usual
        ]
        if not usual or sum(map(len, leaving)) > self._n_vocab // 10:
            return False
        allowed[pieces.whole] = True
        for partial, tokens in pieces.cut_off.items():
            if usual is state:
                allowed[tokens] = self._automaton.may_continue(state, partial)
            else:
                self._ask(tokens, allowed)
        self._ask({token for tokens in leaving for token in tokens}, allowed)
        return True

    def _reachable(self) -> list[int]:
        """The tokens whose characters the grammar takes."""
        automaton, tokens = self._automaton, list[int]()
        pending: list[tuple[Node, State]] = [(self._pieces.root, self._state)]
        while pending:
            node, state = pending.pop()
            tokens += node.whole
            for partial, cut_off in node.partial.items():
                if automaton.may_continue(state, partial):
                    tokens += cut_off
            if state.awaits_token:
                named, all_others = automaton.named_tokens(state)
                tokens += [t for t in named if t < self._n_vocab and self.allows(t)]
                if all_others:
                    tokens += [token for token in node.below() if token not in named]
                    continue
            for point, child in node.children.items():
                reached = state.next.get(point) or automaton.step(state, point)
                if reached:
                    pending.append((child, reached))
        return tokens
