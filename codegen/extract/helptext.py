"""What `llama-server --help` prints, read back and compared with what the source says."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codegen.extract.options import find_default
from codegen.extract.tree import Problem

HEADINGS = {
    "common params": "common",
    "sampling params": "sampling",
    "speculative params": "speculative",
    "example-specific params": "server",
}
COLUMN = 40
"""Where upstream's descriptions start."""
LABEL = "--help"
_TIMEOUT = 60


class HelpError(Exception):
    """The help text can't be had."""


@dataclass
class Entry:
    """One option as printed."""

    section: str
    line: int
    spellings: list[str]
    hint: str
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The description on one line, as wrapping can't be told from line ends."""
        return " ".join(" ".join(self.lines).split())

    @property
    def env(self) -> str | None:
        """The environment variable it names."""
        found = re.findall(r"\(env: (\w+)\)", self.text)
        return found[-1] if found else None

    @property
    def default(self) -> str | None:
        """The default it names, up to a comma."""
        return find_default(re.sub(r" ?\(env: \w+\)$", "", self.text))

    def names_default(self, value: str) -> bool:
        """Whether it names this default, which may hold commas."""
        text = re.escape(" ".join(value.split()))
        return bool(re.search(rf"\bdefault(?:: |=)['\"]?{text}(?:[),;'\"]| |$)", self.text))


def read_help(path: Path) -> str:
    """The text in a file, or what an executable prints for `--help`; raises HelpError."""
    try:
        head = path.open("rb").read(4)
    except OSError as error:
        raise HelpError(f"{path.name} can't be read: {error.strerror}") from error
    if not os.access(path, os.X_OK) and head[:4] != b"\x7fELF":
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise HelpError(f"{path.name} is neither text nor a program") from error
    try:
        run = subprocess.run(
            [os.fspath(path.resolve()), "--help"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HelpError(f"{path.name} --help failed: {error}") from error
    return run.stdout


def parse_help(text: str) -> tuple[list[Entry], list[Problem]]:
    """The entries in order, and the lines that aren't understood."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    section = None
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.fullmatch(r"----- (.+) -----", line)
        if heading:
            section = HEADINGS.get(heading.group(1), heading.group(1))
            if heading.group(1) not in HEADINGS:
                problems.append(Problem(LABEL, number, "unknown section", line))
        elif not line.strip() or (section is None and not line.startswith("-")):
            continue
        elif line.startswith(" " * COLUMN) and entries:
            entries[-1].lines.append(line.strip())
        elif line.startswith("-") and section is not None:
            # A long left part stands alone on its line, so its column may hold anything.
            alone = len(line) > COLUMN and line[COLUMN - 3 : COLUMN] != "   "
            left, right = (line, "") if alone else (line[:COLUMN], line[COLUMN:])
            entry = _entry(section, number, left.rstrip())
            if entry is None:
                problems.append(Problem(LABEL, number, "unreadable option", line))
                continue
            if right.strip():
                entry.lines.append(right.strip())
            entries.append(entry)
        else:
            problems.append(Problem(LABEL, number, "line belongs to no option", line))
    return entries, problems


def _entry(section: str, line: int, left: str) -> Entry | None:
    match = re.match(r"-[^\s,]+(?:,\s+-[^\s,]+)*", left)
    rest = left[match.end() :] if match else ""
    if match is None or (rest and not rest.startswith(" ")):
        return None
    return Entry(section, line, re.split(r",\s+", match.group()), rest.strip())


def compare(options: list[dict[str, Any]], entries: list[Entry]) -> list[Problem]:
    """Every difference between the source's options and the help's entries, as problems."""
    problems: list[Problem] = []
    by_spellings = {tuple(entry.spellings): entry for entry in entries}
    order = []
    for option in options:
        spellings = (*option["spellings"], *option["negative_spellings"])
        entry = by_spellings.pop(spellings, None)
        if entry is None:
            if not option["when"]:
                problems.append(Problem(LABEL, 0, "not printed", ", ".join(spellings)))
            continue
        order.append(entry.line)
        problems += _differences(option, entry)
    for entry in by_spellings.values():
        text = ", ".join(entry.spellings)
        problems.append(Problem(LABEL, entry.line, "not in the source", text))
    for section in HEADINGS.values():
        lines = [
            entry.line
            for option in options
            for entry in entries
            if option["section"] == section
            and entry.spellings == [*option["spellings"], *option["negative_spellings"]]
        ]
        if lines != sorted(lines):
            problems.append(Problem(LABEL, 0, "the order isn't the source's", section))
    return problems


def _differences(option: dict[str, Any], entry: Entry) -> list[Problem]:
    hints = option["hints"]
    default = option["default"]["printed"] if option["default"] else None
    known = _unknown(option) or (default is not None and entry.names_default(default))
    facts = [
        ("section", option["section"], entry.section, False),
        ("environment variable", option["env"], entry.env, False),
        ("value", " ".join(hint or "" for hint in hints), entry.hint, None in hints),
        ("default", default, entry.default, known),
    ]
    return [
        Problem(LABEL, entry.line, f"{option['name']}: {what}", f"{ours!r} printed as {theirs!r}")
        for what, ours, theirs, open_ in facts
        if ours != theirs and not open_
    ]


def _unknown(option: dict[str, Any]) -> bool:
    """Whether the program composes the default, so that only the help shows it."""
    default = option["default"]
    return default is not None and default["printed"] is None


def complete(options: list[dict[str, Any]], entries: list[Entry]) -> None:
    """Fill in what only the program knows: composed defaults and names of values."""
    by_spellings = {tuple(entry.spellings): entry for entry in entries}
    for option in options:
        entry = by_spellings.get((*option["spellings"], *option["negative_spellings"]))
        option["printed"] = entry is not None
        if entry is None:
            continue
        if None in option["hints"]:
            option["hints"] = [entry.hint]
        if _unknown(option):
            option["default"]["printed"] = entry.default
