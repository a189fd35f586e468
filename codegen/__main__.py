"""`python -m codegen`: gen, check, coverage, extract."""

import argparse
import sys
from pathlib import Path

from codegen import check
from codegen.coverage import coverage_lines
from codegen.extract import main as extract
from codegen.gates import check_decisions
from codegen.load import load
from codegen.plan import outputs
from codegen.problems import Problems, SpecError

_ROOT = Path(__file__).parent.parent


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv[:1] == ["extract"]:
        return extract(argv[1:])
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("command", choices=["gen", "check", "coverage", "extract"])
    parser.add_argument("--spec", type=Path, default=_ROOT / "spec")
    parser.add_argument("--out", type=Path, default=_ROOT / "generated")
    arguments = parser.parse_args(argv)
    try:
        spec = load(arguments.spec)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.command == "coverage":
        print("\n".join(coverage_lines(spec)))
        return 0
    if arguments.command == "gen":
        print("\n".join(check.write(arguments.out, outputs(spec)) or ["generated/ is fresh"]))
        return 0
    problems = Problems()
    check_decisions(spec, problems)
    stale = check.differences(arguments.out, outputs(spec))
    for problem in problems.found + stale:
        print(problem, file=sys.stderr)
    if stale:
        print(f"generated/ doesn't match spec/: {check.MEND}", file=sys.stderr)
    if not problems.found and not stale:
        print(f"spec/ is valid and generated/ is fresh; {coverage_lines(spec)[0]}")
    return 1 if problems.found or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
