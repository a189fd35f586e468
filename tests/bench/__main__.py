"""`make bench`: how fast sampling and serving are, beside goals and other servers."""

import argparse

from tests.bench import sampling, schemas, serving


def main() -> None:
    """Measure the parts asked for; `schemas`, which only counts, runs when named."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="how often servers are measured")
    parser.add_argument("--only", choices=["sampling", "serving", "schemas"], help="one part")
    arguments = parser.parse_args()
    if arguments.only in (None, "sampling"):
        sampling.report()
    if arguments.only is None:
        print()
    if arguments.only in (None, "serving"):
        serving.report(arguments.rounds)
    if arguments.only == "schemas":
        schemas.report()


if __name__ == "__main__":
    main()
