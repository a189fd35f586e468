"""Looks for several delimiters at once: the automaton of Aho and Corasick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """What may have been read of the delimiters, and what the next character makes of it."""

    number: int
    """0 where nothing was."""
    ending: list[str]
    """Characters that complete a delimiter."""
    onward: list[tuple[int, list[str]]]
    """States but the first, and the other characters that lead to each, both in order."""

    @property
    def noted(self) -> list[str]:
        """All characters that don't lead to the first state, in order."""
        return sorted([*self.ending, *(char for _, chars in self.onward for char in chars)])


def states(delimiters: tuple[str, ...]) -> Iterator[State]:
    """Every state in which no delimiter is complete, numbered in the order of the delimiters."""
    beginnings = (word[:length] for word in delimiters for length in range(len(word) + 1))
    numbers = {text: number for number, text in enumerate(dict.fromkeys(beginnings))}
    alphabet = sorted({char for word in delimiters for char in word})
    for text, number in numbers.items():
        if text.endswith(delimiters):
            continue
        ending: list[str] = []
        onward: dict[int, list[str]] = {}
        for char in alphabet:
            if (text + char).endswith(delimiters):
                ending.append(char)
            elif after := _longest_ending(text + char, numbers):
                onward.setdefault(after, []).append(char)
        yield State(number, ending, sorted(onward.items()))


def _longest_ending(text: str, numbers: dict[str, int]) -> int:
    """The number of the longest beginning of a delimiter that the text ends with."""
    endings = (text[at:] for at in range(len(text) + 1))
    return next(numbers[ending] for ending in endings if ending in numbers)
