"""Collects everything that is wrong with a spec, each with its place: one run shows all of it."""

from collections.abc import Iterator
from contextlib import contextmanager


class SpecError(Exception):
    """A spec that can't be used. `str()` is one line for each problem."""


class Problems:
    """A list of problems; `at()` says where the reader stands, `add()` writes one down."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._place: list[str] = []

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Everything added inside is reported as being in this place."""
        self._place.append(place)
        try:
            yield
        finally:
            self._place.pop()

    def add(self, text: str) -> None:
        """Write down one problem in the present place."""
        self.found.append(f"in {': '.join(self._place)}: {text}" if self._place else text)

    def raise_if_any(self) -> None:
        """Raise SpecError with all the problems, if there are any."""
        if self.found:
            raise SpecError("\n".join(self.found))
