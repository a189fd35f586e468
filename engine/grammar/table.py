"""A grammar's steps as a table, to take all tokens of a vocabulary through it at once."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from engine.grammar.automaton import Automaton, State
from engine.grammar.pieces import Pieces

_UNKNOWN, _DEAD = -1, 0
_DENSE = 8  # how much cheaper a node is where a whole level is taken
Rows = NDArray[np.int32]


class Table:
    """Which state follows which, by classes of characters that no rule tells apart.

    For grammars without tokens. States get rows as they come up; row 0 is the one that has no
    way on.
    """

    def __init__(self, automaton: Automaton, pieces: Pieces) -> None:
        self._automaton, self._pieces = automaton, pieces
        bounds = np.array(sorted(automaton.bounds()), dtype=np.int64)
        self._representatives = [0, *bounds.tolist()]
        classes = np.searchsorted(bounds, pieces.points, side="right").astype(np.int32)
        self._class_of = classes[pieces.point_of] if len(classes) else np.zeros(1, dtype=np.int32)
        self._width = len(self._representatives)
        dead = automaton.state(set())
        self._states = [dead]
        self._rows: dict[State, int] = {dead: _DEAD}
        self._next: Rows = np.full((64, self._width), _UNKNOWN, dtype=np.int32)
        self._next[_DEAD] = _DEAD
        self._cut_answers: dict[int, bool] = {}
    def __len__(self) -> int:
        return len(self._states)

    def allowed(self, state: State) -> NDArray[np.bool_]:
        """Which tokens that begin with a whole character may come next: bool [n_vocab]."""
        rows = self._walk(self._row(state))[self._pieces.node_of]
        taken = rows != _DEAD
        n_whole = len(rows) - len(self._pieces.cut_of)
        taken[n_whole:] = self._goes_on(rows[n_whole:])
        allowed = np.zeros(self._pieces.n_vocab, dtype=np.bool_)
        allowed[self._pieces.tokens] = taken
        return allowed

    def _walk(self, start: int) -> Rows:
        """The row at each node of the tree of tokens."""
        children, levels = self._pieces.children, self._pieces.levels
        rows = np.zeros(len(self._class_of), dtype=np.int32)
        rows[0] = start
        alive = np.zeros(1, dtype=np.intp)
        for first, last in itertools.pairwise(levels[1:]):
            begins = children[alive]
            counts = children[alive + 1] - begins
            ends = np.cumsum(counts)
            if ends[-1] * _DENSE > last - first:
                # Cheaper than picking out those that can be reached: the others' parents are dead.
                reached = self._step(
                    rows[self._pieces.parent_of[first:last]], self._class_of[first:last]
                )
                rows[first:last] = reached
                alive = first + np.flatnonzero(reached)
            else:
                nodes = np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts)
                reached = self._step(np.repeat(rows[alive], counts), self._class_of[nodes])
                rows[nodes] = reached
                alive = nodes[reached != _DEAD]
            if not len(alive):
                break
        return rows

    def _step(self, rows: Rows, classes: Rows) -> Rows:
        keys = rows * np.int32(self._width)
        keys += classes
        reached = self._next.ravel().take(keys)
        if len(reached) and reached.min() == _UNKNOWN:
            for key in np.unique(keys[reached == _UNKNOWN]).tolist():
                row, number = divmod(key, self._width)
                following = self._automaton.step(self._states[row], self._representatives[number])
                found = self._row(following)  # may replace the table
                self._next[row, number] = found
            reached = self._next.ravel().take(keys)
        return reached

    def _row(self, state: State) -> int:
        found = self._rows.setdefault(state, len(self._states))
        if found == len(self._states):
            self._states.append(state)
            if found == len(self._next):
                more = np.full_like(self._next, _UNKNOWN)
                self._next = np.concatenate((self._next, more))
        return found

    def _goes_on(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether what is cut off at the tokens' ends could go on, for each of them."""
        cuts = self._pieces.cuts
        if not cuts:
            return np.zeros(0, dtype=np.bool_)
        keys = rows * len(cuts) + self._pieces.cut_of
        answers = self._cut_answers
        for key in set(keys.tolist()).difference(answers):
            row, cut = divmod(key, len(cuts))
            answers[key] = self._automaton.may_continue(self._states[row], cuts[cut])
        return np.array([answers[key] for key in keys.tolist()], dtype=np.bool_)
