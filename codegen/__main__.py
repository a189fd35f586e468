"""`python -m codegen`: makes `generated/` from `spec/`, checks it, and follows llama.cpp."""

import argparse
import importlib
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from codegen import agreement, check
from codegen.coverage import coverage_lines
from codegen.gates import check_decisions
from codegen.load import load
from codegen.model import Spec
from codegen.plan import outputs
from codegen.problems import Problems, SpecError

_ROOT = Path(__file__).parent.parent
REPLAY = _ROOT / ".cache" / "replay.json"
"""Where the last replay left its result."""
_COMMANDS = {
    "gen": "write generated/ from spec/",
    "check": "say whether spec/ is valid and generated/ fresh; exit status 1 if not",
    "coverage": "print how much is decided and how; --keep takes the last replay over first",
    "extract": "write spec/upstream/ from an unpacked llama.cpp tree",
    "diff": "report what differs between two extracted trees",
    "repin": "read another build into spec/upstream and report what changed",
    "capture": "record what a llama-server answers to the probes",
    "replay": "send the recorded requests to this server and compare",
}
_OWN_ARGUMENTS = {
    "extract": "codegen.extract",
    "diff": "codegen.diff",
    "repin": "codegen.repin",
    "capture": "codegen.capture",
    "replay": "codegen.capture.replay",
}


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv and argv[0] in _OWN_ARGUMENTS:
        command = importlib.import_module(_OWN_ARGUMENTS[argv[0]])
        return int(command.main(argv[1:]))
    parser = argparse.ArgumentParser(
        prog="python -m codegen",
        description=__doc__,
        epilog="\n".join(f"  {name:9} {text}" for name, text in _COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=_COMMANDS, metavar="COMMAND")
    parser.add_argument("--spec", type=Path, default=_ROOT / "spec", help="the spec's folder")
    parser.add_argument("--out", type=Path, default=_ROOT / "generated", help="the output folder")
    parser.add_argument("--keep", action="store_true", help="for coverage: keep the last replay")
    arguments = parser.parse_args(argv)
    if arguments.keep:
        if not REPLAY.exists():
            print("error: nothing was replayed yet: run `make coverage`", file=sys.stderr)
            return 1
        agreement.keep(arguments.spec, REPLAY)
    try:
        spec = load(arguments.spec)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.command == "coverage":
        print("\n".join(coverage_lines(spec)))
        if arguments.keep:
            print("\n".join(check.write(arguments.out, outputs(spec))))
        return 0
    if arguments.command == "gen":
        print("\n".join(check.write(arguments.out, outputs(spec)) or ["generated/ is fresh"]))
        return 0
    return _check(spec, arguments.spec, arguments.out)


def _check(spec: Spec, root: Path, out: Path) -> int:
    problems = Problems()
    # Rendering and checking take two seconds each and need nothing of each other.
    with ProcessPoolExecutor(1) as other:
        rendered = other.submit(outputs, spec)
        check_decisions(spec, root, problems)
        stale = check.differences(out, rendered.result())
    for problem in problems.found + stale:
        print(problem, file=sys.stderr)
    if stale:
        print(f"generated/ doesn't match spec/: {check.MEND}", file=sys.stderr)
    if problems.found or stale:
        return 1
    print("spec/ is valid and generated/ is fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
