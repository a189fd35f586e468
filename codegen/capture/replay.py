"""`python -m codegen replay`: sends the recorded requests to this server and compares."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codegen.capture import captures
from codegen.capture.captures import Capture
from codegen.capture.compare import Difference, differences
from codegen.capture.covers import differing
from codegen.capture.exchange import Servers
from codegen.capture.probes import Group, read_setups
from codegen.capture.server import ROOT, ServerError, our_command
from codegen.load import load
from codegen.model import Spec

_NOT_STARTED = Difference("server", "answers", "refuses an option or ends")
RESULT = ROOT / ".cache" / "replay.json"


@dataclass(frozen=True)
class Replayed:
    """One capture: how this server's answer differs, and whether that was to be expected."""

    name: str
    covers: tuple[str, ...]
    expected_to_differ: bool
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences

    @property
    def fails(self) -> bool:
        """Differs although everything that it covers is supported."""
        return not self.agrees and not self.expected_to_differ

    def __str__(self) -> str:
        return "\n  ".join([self.name, *map(str, self.differences[:8])])


class Replay:
    """Replays groups; servers are kept until the stack closes."""

    def __init__(self, spec: Spec, root: Path, stack: ExitStack) -> None:
        self._differing = differing(spec)
        self._setups = read_setups(root).by_name
        self._servers = Servers(our_command(), spec, root, stack, keep=True)

    def group(self, group: Group, recorded: list[Capture]) -> Iterator[Replayed]:
        """Replay one recorded group; raises ServerError, unless all of it may differ."""
        setup = self._setups[group.setup]
        answers = self._servers.answers(group, setup)
        try:
            for reference, ours in zip(recorded, answers, strict=True):
                found = differences(reference.answer, ours.answer, group.compare)
                yield self._replayed(group, reference, found)
        except ServerError:
            results = [self._replayed(group, r, [_NOT_STARTED]) for r in recorded]
            if not all(r.expected_to_differ for r in results):
                raise
            yield from results

    def _replayed(self, group: Group, reference: Capture, found: Sequence[Difference]) -> Replayed:
        probe = reference.probe
        differs = not self._differing.isdisjoint(probe.covers)
        return Replayed(f"{group.name}/{probe.name}", probe.covers, differs, tuple(found))


def result(replayed: list[Replayed]) -> dict[str, Any]:
    """The machine-readable result: totals, then each capture."""
    return {
        "total": len(replayed),
        "agreeing": sum(r.agrees for r in replayed),
        "failing": sum(r.fails for r in replayed),
        "expected_to_differ": sum(r.expected_to_differ for r in replayed),
        "captures": {
            r.name: {
                "agrees": r.agrees,
                "expected_to_differ": r.expected_to_differ,
                "differences": [asdict(d) for d in r.differences],
            }
            for r in replayed
        },
    }


def write_result(replayed: list[Replayed]) -> None:
    """Leave the result where the coverage looks for it."""
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result(replayed), indent=1, ensure_ascii=False) + "\n")


def main(argv: list[str]) -> int:
    """Replay all groups, or those named by --only; 1 if a capture fails."""
    parser = argparse.ArgumentParser(prog="python -m codegen replay", description=__doc__)
    parser.add_argument("--only", action="append", metavar="GROUP", help="replay just this group")
    parser.add_argument("--spec", type=Path, default=ROOT / "spec")
    arguments = parser.parse_args(argv)
    spec = load(arguments.spec)
    replayed: list[Replayed] = []
    ended = 0
    with ExitStack() as stack:
        replay = Replay(spec, arguments.spec, stack)
        for group, recorded in captures.read_all(arguments.spec):
            if arguments.only and group.name not in arguments.only:
                continue
            try:
                replayed += replay.group(group, recorded)
            except ServerError as error:
                print(f"{group.name}: {error}", file=sys.stderr)
                ended += 1
    if not arguments.only and not ended:
        write_result(replayed)
    for capture in replayed:
        if capture.fails:
            print(capture)
    failing = sum(r.fails for r in replayed)
    agreeing = sum(r.agrees for r in replayed)
    print(f"{len(replayed)} captures: {agreeing} agree, {failing} fail")
    return 1 if failing or ended else 0
