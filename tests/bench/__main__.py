"""`make bench`: how fast sampling and serving are, beside goals and other servers."""

import argparse
import os
from collections.abc import Callable

from tests.bench import (
    first_token,
    gap,
    ngram,
    overhead,
    sampling,
    schemas,
    serving,
    soak,
    streams,
)
from tests.bench.results import Report

_LLAMA_SERVER = "LLAMA_SERVER"


def main() -> None:
    """Measure the parts asked for; `schemas`, which only counts, runs when named."""
    parts: dict[str, tuple[int, Callable[[int], Report]]] = {
        "serving": (3, serving.report),
        "streams": (3, lambda rounds: streams.report(rounds, arguments.llama_server)),
        "gap": (3, gap.report),
        "first_token": (3, first_token.report),
        "overhead": (5, overhead.report),
        "cost": (3, overhead.report_cost),
        "ngram": (3, ngram.report),
        "soak": (1, soak.report),
    }
    without_rounds = {"sampling": sampling.report, "schemas": schemas.report}
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="how often a part measures, instead of its own")
    parser.add_argument(
        "--only", action="append", choices=[*without_rounds, *parts], help="a part; may be repeated"
    )
    parser.add_argument(
        "--llama-server",
        default=os.environ.get(_LLAMA_SERVER),
        metavar="PATH",
        help=f"the reference's binary, to measure it too; or in the environment, {_LLAMA_SERVER}",
    )
    arguments = parser.parse_args()
    for name in arguments.only or ["sampling", *parts]:
        if name in without_rounds:
            without_rounds[name]()
        else:
            rounds, report = parts[name]
            report(arguments.rounds or rounds).show()
        print()


if __name__ == "__main__":
    main()
