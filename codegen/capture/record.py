"""`python -m codegen capture LLAMA_SERVER`: records the reference, everything twice."""

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from codegen.capture import captures
from codegen.capture.captures import Capture
from codegen.capture.compare import differences
from codegen.capture.covers import covers, unknown
from codegen.capture.derive import derived_groups
from codegen.capture.exchange import Servers
from codegen.capture.probes import Group, Setups, read_groups, read_setups
from codegen.capture.server import ROOT, ServerError
from codegen.load import load
from codegen.model import Spec
from codegen.problems import SpecError


def main(argv: list[str]) -> int:
    """Record all groups, or those named by --only; 1 if an answer can't be relied on."""
    parser = argparse.ArgumentParser(prog="python -m codegen capture", description=__doc__)
    parser.add_argument("llama_server", help="the reference binary")
    parser.add_argument("--only", action="append", metavar="GROUP", help="record just this group")
    parser.add_argument("--spec", type=Path, default=ROOT / "spec")
    arguments = parser.parse_args(argv)
    try:
        spec = load(arguments.spec)
        setups = read_setups(arguments.spec)
        groups = [_covering(spec, setups, g) for g in all_groups(spec, arguments.spec)]
        faults = [*_faults(spec, groups), *_record(arguments, spec, setups, groups)]
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def all_groups(spec: Spec, root: Path) -> list[Group]:
    """The written groups, then those derived from the spec."""
    return [*read_groups(root), *derived_groups(spec)]


def _covering(spec: Spec, setups: Setups, group: Group) -> Group:
    setup = setups.by_name[group.setup]
    probes = (replace(p, covers=covers(spec, p, setup)) for p in group.probes)
    return replace(group, probes=tuple(probes))


def _faults(spec: Spec, groups: list[Group]) -> list[str]:
    """Names that stand twice or for nothing."""
    found = []
    for group in groups:
        names = [p.name for p in group.probes]
        found += [
            f"{group.name}: two probes are called {n!r}" for n in set(names) if names.count(n) > 1
        ]
        found += [
            f"{group.name}/{p.name}: covers {n!r}, which isn't in the spec"
            for p in group.probes
            for n in unknown(spec, p.covers)
        ]
    return found


def _record(
    arguments: argparse.Namespace, spec: Spec, setups: Setups, groups: list[Group]
) -> list[str]:
    """Write what two recordings agree on: one on fresh servers, one on shared ones."""
    command = [arguments.llama_server, *setups.reference_arguments]
    faults: list[str] = []
    total = 0
    folder = arguments.spec / "captures"
    with ExitStack() as stack:
        fresh = Servers(command, spec, arguments.spec, stack, keep=False)
        shared = Servers(command, spec, arguments.spec, stack, keep=True)
        for group in groups:
            if arguments.only and group.name not in arguments.only:
                continue
            setup = setups.by_name[group.setup]
            try:
                first = list(fresh.answers(group, setup))
                second = list(shared.answers(group, setup))
            except ServerError as error:
                faults.append(f"{group.name}: {error}")
                continue
            unlike = _unlike(group, first, second)
            faults += unlike
            if not unlike:
                captures.write(folder / f"{group.name}.json", group, first)
            total += len(first)
            print(f"{group.name}: {len(first)} captures, {len(unlike)} not repeatable", flush=True)
    if not arguments.only:
        known = {g.name for g in groups}
        for path in folder.glob("*.json"):
            if path.stem not in known:
                path.unlink()
    print(f"{total} captures in all")
    return faults


def _unlike(group: Group, first: list[Capture], second: list[Capture]) -> list[str]:
    """What two recordings of the reference disagree on, though it isn't declared volatile."""
    return [
        f"{group.name}/{a.probe.name}: two recordings differ: {difference}"
        for a, b in zip(first, second, strict=True)
        for difference in differences(a.answer, b.answer, group.compare)
    ]
