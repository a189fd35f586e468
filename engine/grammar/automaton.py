"""A grammar as a pushdown automaton over code points and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from engine.grammar.rules import Grammar, Kind
from engine.grammar.utf8 import Partial, completions

# Stacks are numbered, so that comparing and hashing them costs nothing. This one is the empty one.
EMPTY = 0


_ENDS = (Kind.END, Kind.ALT)
_TOKENS = (Kind.TOKEN, Kind.TOKEN_NOT)
_CHARACTERS = (Kind.CHAR, Kind.CHAR_NOT, Kind.CHAR_ANY)


@dataclass(frozen=True, slots=True)
class _Terminal:
    """What can stand at one position: a set of characters, or a token."""

    wanted: bool  # False for the inverse of the set
    ranges: tuple[tuple[int, int], ...]
    token: int | None
    after: int

    def has(self, point: int) -> bool:
        for low, high in self.ranges:
            if low <= point <= high:
                return self.wanted
        return not self.wanted

    def may_become(self, partial: Partial) -> bool:
        """Whether the incomplete character could be in the set, as llama.cpp decides."""
        between = completions(partial)
        if between is None:
            return False
        low, high = between
        return any(a <= high and low <= b for a, b in self.ranges) == self.wanted

    def is_token(self, token: int) -> bool:
        return (self.token == token) == self.wanted


class State:
    """The stacks that are possible at one moment; there is one object for each such set."""

    __slots__ = ("awaits_token", "next", "stacks")

    def __init__(self, stacks: frozenset[int], awaits_token: bool) -> None:
        self.stacks = stacks
        self.awaits_token = awaits_token
        self.next: dict[int, State] = {}  # by code point, as far as it was asked for

    def __bool__(self) -> bool:
        """Whether there is any way on, or the text may end here."""
        return bool(self.stacks)

    @property
    def may_end(self) -> bool:
        return EMPTY in self.stacks


class Automaton:
    """Moves between sets of stacks; everything computed once is remembered."""

    def __init__(self, grammar: Grammar) -> None:
        self._elements = [element for rule in grammar.rules for element in rule]
        self._starts = [0]
        for rule in grammar.rules:
            self._starts.append(self._starts[-1] + len(rule))
        self._stacks: list[tuple[int, int]] = [
            (EMPTY, -1)
        ]  # what is below, and the position on top
        self._numbers: dict[tuple[int, int], int] = {}
        self._terminals: dict[int, _Terminal] = {}
        self._advanced: dict[int, frozenset[int]] = {}
        self._states: dict[frozenset[int], State] = {}
        started: set[int] = set()
        for position in self._alternatives(grammar.root):
            started |= self._advance(self._push(EMPTY, position))
        self.start = self.state(started)

    @property
    def size(self) -> int:
        """How many stacks and states have come up."""
        return len(self._stacks) + len(self._states)

    @property
    def has_tokens(self) -> bool:
        """Whether any rule asks for a token, not for characters."""
        return any(element.kind in _TOKENS for element in self._elements)

    def bounds(self) -> set[int]:
        """Where among the code points what a rule takes may change: between two, all are alike."""
        found: set[int] = set()
        for position, element in enumerate(self._elements):
            if element.kind in _CHARACTERS:
                for low, high in self._read_terminal(position).ranges:
                    found |= {low, high + 1}
        return found

    def state(self, stacks: set[int] | frozenset[int]) -> State:
        """The one state that has these stacks."""
        key = frozenset(stacks)
        found = self._states.get(key)
        if found is None:
            tops = map(self._top, key)
            awaits = any(top is not None and top.token is not None for top in tops)
            found = self._states[key] = State(key, awaits)
        return found

    def step(self, state: State, point: int) -> State:
        """The state after one character; one without stacks where it isn't allowed."""
        found = state.next.get(point)
        if found is None:
            reached: set[int] = set()
            for stack in state.stacks:
                terminal = self._top(stack)
                if terminal is not None and terminal.token is None and terminal.has(point):
                    reached |= self._after(stack, terminal)
            found = state.next[point] = self.state(reached)
        return found

    def step_token(self, state: State, token: int) -> set[int]:
        """The stacks after one token, of those that wait for tokens."""
        reached: set[int] = set()
        for stack in self.awaiting_tokens(state):
            terminal = self._top(stack)
            if terminal is not None and terminal.is_token(token):
                reached |= self._after(stack, terminal)
        return reached

    def awaiting_tokens(self, state: State) -> list[int]:
        """The stacks that go on with a token, not with a character."""
        return [
            stack
            for stack in (state.stacks if state.awaits_token else ())
            if (terminal := self._top(stack)) is not None and terminal.token is not None
        ]

    def takes_token(self, state: State, token: int) -> bool:
        """Whether a stack that waits for tokens takes this one."""
        tops = map(self._top, self.awaiting_tokens(state))
        return any(terminal is not None and terminal.is_token(token) for terminal in tops)

    def named_tokens(self, state: State) -> tuple[set[int], bool]:
        """The tokens that waiting stacks name, as wanted or not; whether all others are taken."""
        tops = [top for stack in self.awaiting_tokens(state) if (top := self._top(stack))]
        named = {top.token for top in tops if top.token is not None}
        return named, any(not top.wanted for top in tops)

    def may_continue(self, state: State, partial: Partial) -> bool:
        """Whether an incomplete character could go on in some stack."""
        tops = map(self._top, state.stacks)
        return any(
            terminal is not None and terminal.token is None and terminal.may_become(partial)
            for terminal in tops
        )

    def _push(self, below: int, position: int) -> int:
        """The stack with `position` on top of `below`, or `below` itself behind a rule's end."""
        if self._elements[position].kind in _ENDS:
            return below
        number = self._numbers.setdefault((below, position), len(self._stacks))
        if number == len(self._stacks):
            self._stacks.append((below, position))
        return number

    def _after(self, stack: int, terminal: _Terminal) -> frozenset[int]:
        return self._advance(self._push(self._stacks[stack][0], terminal.after))

    def _alternatives(self, rule: int) -> list[int]:
        start, end = self._starts[rule], self._starts[rule + 1]
        return [start] + [
            position + 1
            for position in range(start, end)
            if self._elements[position].kind == Kind.ALT
        ]

    def _advance(self, stack: int) -> frozenset[int]:
        """Expand rules until a terminal is on top, or nothing is left."""
        found = self._advanced.get(stack)
        if found is not None:
            return found
        reached, seen, pending = set(), {stack}, [stack]
        while pending:
            current = pending.pop()
            below, position = self._stacks[current]
            if current == EMPTY or self._elements[position].kind != Kind.RULE:
                reached.add(current)
                continue
            below = self._push(below, position + 1)
            for start in self._alternatives(self._elements[position].value):
                expanded = self._push(below, start)
                if expanded not in seen:
                    seen.add(expanded)
                    pending.append(expanded)
        self._advanced[stack] = frozenset(reached)
        return self._advanced[stack]

    def _top(self, stack: int) -> _Terminal | None:
        if stack == EMPTY:
            return None
        position = self._stacks[stack][1]
        found = self._terminals.get(position)
        if found is None:
            found = self._terminals[position] = self._read_terminal(position)
        return found

    def _read_terminal(self, position: int) -> _Terminal:
        kind, value = self._elements[position]
        if kind in _TOKENS:
            return _Terminal(kind == Kind.TOKEN, (), value, position + 1)
        ranges: list[tuple[int, int]] = []
        at = position
        while at == position or self._elements[at].kind == Kind.CHAR_ALT:
            low = high = self._elements[at].value
            if self._elements[at].kind == Kind.CHAR_ANY:
                low, high = 0, 0xFFFFFFFF
            elif self._elements[at + 1].kind == Kind.CHAR_UPPER:
                high = self._elements[at + 1].value
                at += 1
            ranges.append((low, high))
            at += 1
        return _Terminal(kind != Kind.CHAR_NOT, tuple(ranges), None, at)
