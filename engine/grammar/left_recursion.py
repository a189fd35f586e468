"""Finds rules that could expand for ever without reading anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.grammar.rules import Kind, Rule

_ENDS = (Kind.END, Kind.ALT)


def left_recursive(rules: Sequence[Rule]) -> int | None:
    """The first rule from which a rule is reached that can begin with itself, if there is one.

    As in llama.cpp, only a rule with an empty alternative of its own counts as one that may
    be empty: what is empty through other rules' emptiness isn't noticed.
    """
    may_be_empty = [_has_empty_alternative(rule) for rule in rules]
    done: set[int] = set()
    for start in range(len(rules)):
        if start in done:
            continue
        path = {start}
        pending = [(start, _leftmost(rules[start], may_be_empty))]
        while pending:
            number, following = pending[-1]
            reached = next(following, None)
            if reached is None:
                pending.pop()
                path.discard(number)
                done.add(number)
            elif reached in path:
                return start
            elif reached not in done:
                path.add(reached)
                pending.append((reached, _leftmost(rules[reached], may_be_empty)))
    return None


def _has_empty_alternative(rule: Rule) -> bool:
    at_start = True
    for element in rule:
        if element.kind in _ENDS and at_start:
            return True
        at_start = element.kind in _ENDS
    return False


def _leftmost(rule: Rule, may_be_empty: list[bool]) -> Iterator[int]:
    """The rules an alternative can begin with."""
    leftmost = True
    for element in rule:
        if element.kind in _ENDS:
            leftmost = True
        elif element.kind == Kind.RULE and leftmost:
            yield element.value
            leftmost = may_be_empty[element.value]
        else:
            leftmost = False
