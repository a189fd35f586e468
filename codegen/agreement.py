"""How much of what was recorded this server answers alike: the last replay, kept in the spec."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
    groups: Mapping[str, int] = field(default_factory=dict)
    """How many captures of each group the last replay sent."""

    @property
    def replayed(self) -> int:
        """How many captures the last replay sent."""
        return sum(self.groups.values())

    @cached_property
    def stale(self) -> list[str]:
        """Groups that have other captures now, or are gone: of those nothing is known."""
        now = Counter(name.partition("/")[0] for name in self.covers)
        return sorted(g for g in now.keys() | self.groups if self.groups.get(g, 0) != now[g])

    @property
    def agreeing(self) -> int:
        """How many of the replayed captures were answered alike."""
        return max(0, self.replayed - len(self.differing))

    def of(self, names: Iterable[str]) -> tuple[int, int]:
        """How many captures cover any of the entries or are named, and how many of those agree."""
        captures = {
            capture
            for name in names
            for capture in ([name] if name in self.covers else self._by_entry.get(name, ()))
        }
        stale = self.stale
        known = {c for c in captures if c.partition("/")[0] not in stale}
        return len(captures), len(known - self.differing)

    @cached_property
    def _by_entry(self) -> dict[str, list[str]]:
        entries: dict[str, list[str]] = {}
        for capture, covered in self.covers.items():
            for entry in covered:
                entries.setdefault(entry, []).append(capture)
        return entries


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
    groups = Counter(name.partition("/")[0] for name in captures)
    data = {"replayed": dict(sorted(groups.items())), "differing": differing}
    (spec / NAME).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
