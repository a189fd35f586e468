"""An unpacked llama.cpp tree, and the problems met while reading it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codegen.extract.cpp import CppError, Source, read_source


@dataclass(frozen=True, order=True)
class Problem:
    """Something the extractor doesn't recognise: where, what, and the text there."""

    path: str
    line: int
    message: str
    text: str = ""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.message}" + (f": {self.text}" if self.text else "")


@dataclass
class Tree:
    """Reads files below `root` once each, and collects every problem instead of stopping."""

    root: Path
    problems: list[Problem] = field(default_factory=list)
    unreadable: list[Problem] = field(default_factory=list)
    """Files that can't be read at all: the cause of whatever else is missing."""
    _sources: dict[str, Source] = field(default_factory=dict)
    _faults: dict[str, Problem] = field(default_factory=dict)

    def source(self, path: str) -> Source:
        """The tokens of the file at `path`; an empty file if it can't be read."""
        if path not in self._sources:
            self._sources[path] = self._read(path)
        if path in self._faults and self._faults[path] not in self.unreadable:
            self.unreadable.append(self._faults[path])
        return self._sources[path]

    def take(self) -> list[Problem]:
        """The problems since the last call, sorted; files that can't be read stand for the rest.

        So what was noted for one document doesn't count for the next.
        """
        found = sorted(self.unreadable or self.problems)
        self.unreadable.clear()
        self.problems.clear()
        return found

    def paths(self, pattern: str) -> list[str]:
        """The files that match a glob pattern, sorted, relative to the root."""
        return sorted(found.relative_to(self.root).as_posix() for found in self.root.glob(pattern))

    def problem(self, source: Source, index: int, message: str) -> None:
        """Note what stands at token `index` as not recognised."""
        line = source[index].line if 0 <= index < len(source) else 0
        self.problems.append(Problem(source.path, line, message, source.snippet(index)))

    def missing(self, path: str, message: str) -> None:
        """Note that `path` lacks something the extractor looks for."""
        self.problems.append(Problem(path, 0, message))

    def _read(self, path: str) -> Source:
        try:
            text = (self.root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            self._faults[path] = Problem(path, 0, f"can't be read ({reason})")
            return Source(path, ())
        try:
            return read_source(path, text)
        except CppError as error:
            self._faults[path] = Problem(path, error.line, str(error))
            return Source(path, ())
