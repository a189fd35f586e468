"""How much of what was recorded this server answers alike: the last replay, kept in the spec."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "agreement.json"


@dataclass(frozen=True)
class Agreement:
    """Which captures cover what, and which of them this server answers otherwise."""

    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each capture covers, by its name as group/name."""
    differing: frozenset[str] = frozenset()
    """Captures that the last replay answered otherwise."""
    replayed: int = 0
    """How many captures the last replay sent."""

    @property
    def agreeing(self) -> int:
        """How many of the replayed captures were answered alike."""
        return max(0, self.replayed - len(self.differing))

    def of(self, names: Iterable[str]) -> tuple[int, int]:
        """How many captures cover any of the entries, and how many of those agree."""
        captures = {c for name in names for c in self._by_entry.get(name, ())}
        return len(captures), len(captures - self.differing)

    @property
    def _by_entry(self) -> dict[str, list[str]]:
        # Frozen, so worked out once and kept beside the fields.
        if "_entries" not in self.__dict__:
            entries: dict[str, list[str]] = {}
            for capture, covered in self.covers.items():
                for entry in covered:
                    entries.setdefault(entry, []).append(capture)
            object.__setattr__(self, "_entries", entries)
        by_entry: dict[str, list[str]] = self.__dict__["_entries"]
        return by_entry


def read(spec: Path) -> Agreement:
    """The captures of a spec folder and its last replay; without one, nothing is known to agree."""
    covers: dict[str, tuple[str, ...]] = {}
    for path in sorted((spec / "captures").glob("*.json")):
        for capture in _captures(path):
            covers[f"{path.stem}/{capture['name']}"] = tuple(capture.get("covers", ()))
    kept = spec / NAME
    if not kept.exists():
        return Agreement(covers, frozenset(covers))
    data = json.loads(kept.read_text(encoding="utf-8"))
    return Agreement(covers, frozenset(data["differing"]), data["replayed"])


def _captures(path: Path) -> list[dict[str, Any]]:
    """A group's captures; none if the file is no JSON, which the loader reports."""
    try:
        captures: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["captures"]
    except (ValueError, KeyError, TypeError):
        return []
    return captures


def keep(spec: Path, replay: Path) -> None:
    """Take a replay's machine-readable result over into the spec."""
    captures = json.loads(replay.read_text(encoding="utf-8"))["captures"]
    differing = sorted(name for name, result in captures.items() if not result["agrees"])
    data = {"replayed": len(captures), "differing": differing}
    (spec / NAME).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
