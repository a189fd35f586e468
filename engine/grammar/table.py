"""A grammar's steps as a table, to take all tokens of a vocabulary through it at once."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.grammar.automaton import Automaton, State
from engine.grammar.pieces import Pieces

_UNKNOWN, _DEAD = -1, 0
_DENSE = 8  # how much cheaper a node is where a whole level is taken
Rows = NDArray[np.int32]
_Int = TypeVar("_Int", np.int8, np.int32)


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
        self._continues = np.full((64, len(pieces.cuts)), _UNKNOWN, dtype=np.int8)

    def __len__(self) -> int:
        return len(self._states)

    def allowed(self, state: State) -> NDArray[np.bool_]:
        """Which tokens that begin with a whole character may come next: bool [n_vocab]."""
        pieces = self._pieces
        rows, nodes = self._walk(self._row(state))
        n_whole = len(pieces.tokens) - len(pieces.cut_of)
        allowed = np.zeros(pieces.n_vocab, dtype=np.bool_)
        if len(nodes) * _DENSE > len(rows):
            allowed[pieces.tokens[:n_whole]] = rows[pieces.node_of[:n_whole]] != _DEAD
            cut_off = n_whole + np.flatnonzero(rows[pieces.node_of[n_whole:]])
        else:
            at = pieces.by_node[_ranges(pieces.ended, nodes)]
            allowed[pieces.tokens[at[at < n_whole]]] = True
            cut_off = at[at >= n_whole]
        ends = rows[pieces.node_of[cut_off]]
        allowed[pieces.tokens[cut_off]] = self._goes_on(ends, pieces.cut_of[cut_off - n_whole])
        return allowed

    def _walk(self, start: int) -> tuple[Rows, NDArray[np.intp]]:
        """The row at each node of the tree of tokens, and the nodes that aren't dead."""
        children, levels = self._pieces.children, self._pieces.levels
        rows = np.zeros(len(self._class_of), dtype=np.int32)
        rows[0] = start
        alive = np.zeros(1, dtype=np.intp)
        found = [alive]
        for above, first, last in zip(levels, levels[1:], levels[2:], strict=False):
            many = len(alive) * _DENSE > first - above
            if many or (children[alive + 1] - children[alive]).sum() * _DENSE > last - first:
                # Cheaper than picking out those that can be reached: the others' parents are dead.
                reached = self._step(
                    rows[self._pieces.parent_of[first:last]], self._class_of[first:last]
                )
                rows[first:last] = reached
                alive = first + np.flatnonzero(reached)
            else:
                below = _ranges(children, alive)
                parents = rows[self._pieces.parent_of[below]]
                reached = self._step(parents, self._class_of[below])
                rows[below] = reached
                alive = below[reached != _DEAD]
            if not len(alive):
                break
            found.append(alive)
        return rows, np.concatenate(found)

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
                self._next = _doubled(self._next)
                self._continues = _doubled(self._continues)
        return found

    def _goes_on(self, rows: Rows, cuts: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether what is cut off at tokens' ends could go on, in the rows there."""
        answers = self._continues[rows, cuts]
        if len(answers) and answers.min() == _UNKNOWN:
            for at in np.flatnonzero(answers == _UNKNOWN).tolist():
                state, cut = self._states[rows[at]], self._pieces.cuts[cuts[at]]
                goes_on = self._automaton.may_continue(state, cut)
                answers[at] = self._continues[rows[at], cuts[at]] = goes_on
        return answers.astype(np.bool_)


def _doubled(table: NDArray[_Int]) -> NDArray[_Int]:
    """Twice as many rows, the new ones unknown."""
    return np.concatenate((table, np.full_like(table, _UNKNOWN)))


def _ranges(starts: NDArray[np.intp], at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers from `starts[n]` to `starts[n + 1]` for each n of `at`, one after the other."""
    begins = starts[at]
    counts = starts[at + 1] - begins
    ends = np.cumsum(counts)
    numbers: NDArray[np.intp] = np.repeat(begins - (ends - counts), counts)
    numbers += np.arange(len(numbers))
    return numbers
