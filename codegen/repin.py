"""`python -m codegen repin SRC [LLAMA_SERVER]`: reads another build of llama.cpp into the spec.

The facts in `spec/upstream` are replaced, the report says what changed, and what nobody has
decided yet keeps `make check` red. With the binary, its answers are recorded anew as well.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen import diff, gates
from codegen.capture import captures
from codegen.capture import main as capture
from codegen.capture.captures import Capture
from codegen.capture.compare import differences
from codegen.extract import main as extract
from codegen.extract.cli import Extract
from codegen.load import load
from codegen.problems import Problems, SpecError

ROOT = Path(__file__).parent.parent
REPORT = ROOT / ".cache" / "repin.md"
_PLACES = 3
"""So many places of a changed answer are shown."""


@dataclass(frozen=True)
class Answers:
    """What recording another binary's answers changed."""

    recorded: int
    changed: Mapping[str, Sequence[str]]
    """Where the answer differs, by the capture's name as group/name."""
    added: Sequence[str]
    removed: Sequence[str]


def main(argv: list[str]) -> int:
    """Run the command; 0 if all was read (and recorded), 1 if something wasn't."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen repin",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="an unpacked llama.cpp tree")
    parser.add_argument(
        "llama_server", metavar="LLAMA_SERVER", nargs="?", help="its binary: record it as well"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="where it goes (%(default)s)")
    parser.add_argument("--spec", type=Path, default=ROOT / "spec", help="the spec's folder")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        return _repin(arguments, Path(folder))


def _repin(arguments: argparse.Namespace, folder: Path) -> int:
    upstream: Path = arguments.spec / "upstream"
    try:
        old = diff.read_extract(upstream)
    except diff.DiffError as error:
        print(error, file=sys.stderr)
        return 1
    new_folder = folder / "upstream"
    binary = ["--help-text", arguments.llama_server] if arguments.llama_server else []
    status = extract([str(arguments.source), "--out", str(new_folder), "--partial", *binary])
    if not (new_folder / diff.FILES[0]).exists():
        return status
    new = diff.read_extract(new_folder)
    if not binary and "options.json" in new:
        keep_printed(old["options.json"], new["options.json"])
        Extract(new, {}).write(new_folder)
    found = diff.changes(old, new)
    builds = [document[diff.FILES[0]].get("build") or "unknown" for document in (old, new)]
    title = f"llama.cpp {builds[0]} → {builds[1]}"
    report = [diff.as_markdown(found, title)]
    _summary(title, found)
    if status == 0:
        shutil.copytree(new_folder, upstream, dirs_exist_ok=True)
        undecided = _undecided(arguments.spec)
        report.append(_section("Undecided", undecided, "Everything is decided."))
        print(f"  Undecided: {len(undecided) or 'nothing'}")
        if arguments.llama_server:
            status, answers = _record(arguments, folder / "captures")
            report.append(_answers(answers))
            print(f"  Answers: {_count(answers)}")
    else:
        print(f"{upstream} stays as it was: not everything could be read", file=sys.stderr)
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text("\n".join(report), encoding="utf-8")
    print(f"The report: {arguments.report}")
    return status


def keep_printed(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Take from the old options what only --help tells, where the source says no different."""
    before = {option["name"]: option for option in old["options"]}
    for option in new["options"]:
        known = before.get(option["name"])
        if known is None:
            continue
        if None in option["hints"] and len(option["hints"]) == len(known["hints"]):
            option["hints"] = known["hints"]
        one, other = known["default"], option["default"]
        if one and other and other["printed"] is None and one["expression"] == other["expression"]:
            other["printed"] = one["printed"]


def _summary(title: str, found: Mapping[str, list[diff.Change]]) -> None:
    print(title)
    for area, list_ in found.items():
        print(f"  {area}: {diff.count(list_)}")


def _undecided(spec: Path) -> list[str]:
    """What `check` says about the new facts."""
    problems = Problems()
    try:
        gates.check_decisions(load(spec), spec, problems)
    except SpecError as error:
        return str(error).splitlines()
    return problems.found


def _section(title: str, lines: Sequence[str], nothing: str) -> str:
    rows = [f"- {diff.code(line)}" for line in lines] or [nothing]
    return "\n".join([f"## {title}", "", *rows]) + "\n"


def _record(arguments: argparse.Namespace, kept: Path) -> tuple[int, Answers]:
    """Record the binary in place; the exit status, and what its answers changed."""
    folder = arguments.spec / "captures"
    shutil.copytree(folder, kept)
    status = capture([arguments.llama_server, "--spec", str(arguments.spec)])
    return status, compare_answers(kept, folder)


def compare_answers(old: Path, new: Path) -> Answers:
    """What changed between two folders of captures."""
    before, after = _read(old), _read(new)
    changed = {}
    for name, capture_ in after.items():
        places = list(_places(before[name], capture_)) if name in before else []
        if places:
            changed[name] = places
    return Answers(
        len(after),
        changed,
        [name for name in after if name not in before],
        [name for name in before if name not in after],
    )


def _read(folder: Path) -> dict[str, Capture]:
    return {
        f"{path.stem}/{recorded.probe.name}": recorded
        for path in sorted(folder.glob("*.json"))
        for recorded in captures.read(path)[1]
    }


def _places(old: Capture, new: Capture) -> Iterator[str]:
    if old.probe.request != new.probe.request:
        yield "another request"
    for place in differences(old.answer, new.answer):
        yield f"{place.path or 'answer'}: {place.reference} → {place.ours}"


def _answers(answers: Answers) -> str:
    """The answers that changed, each with the first places, and how often each place did."""
    lines = ["## Answers", "", _count(answers), ""]
    lines += [f"- added {diff.code(name)}" for name in answers.added]
    lines += [f"- removed {diff.code(name)}" for name in answers.removed]
    for name, places in answers.changed.items():
        lines.append(f"- changed {diff.code(name)}")
        lines += [f"  - {diff.code(place)}" for place in places[:_PLACES]]
        if len(places) > _PLACES:
            lines.append(f"  - and {len(places) - _PLACES} places more")
    return "\n".join(lines) + "\n"


def _count(answers: Answers) -> str:
    counts = Counter(
        changed=len(answers.changed), added=len(answers.added), removed=len(answers.removed)
    )
    words = [f"{number} {word}" for word, number in counts.items() if number]
    return f"{', '.join(words) or 'no change'}, of {answers.recorded} recorded"
