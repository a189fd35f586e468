"""The command: reads a tree, prints every problem or writes the JSON files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.extract.bodies import extract_bodies
from codegen.extract.build import extract_build
from codegen.extract.errors import extract_errors
from codegen.extract.fields import extract_fields
from codegen.extract.functions import extract_functions
from codegen.extract.helptext import HelpError, compare, complete, parse_help, read_help
from codegen.extract.metrics import extract_metrics
from codegen.extract.options import extract_options
from codegen.extract.render import render
from codegen.extract.replies import extract_replies
from codegen.extract.routes import extract_routes
from codegen.extract.structs import Structs
from codegen.extract.tree import Problem, Tree

OUT = Path("spec/upstream")
_FROM_STRUCTS = ("fields.json", "options.json")
"""Documents with values of settings, which the headers declare."""


@dataclass(frozen=True)
class Extract:
    """What could be read of a tree, and what could not."""

    documents: dict[str, dict[str, Any]]
    """The documents that were read without a problem, by file name."""
    unread: dict[str, list[Problem]]
    """For each of the others, why not."""

    @property
    def problems(self) -> list[Problem]:
        """Every problem once."""
        return sorted({problem for problems in self.unread.values() for problem in problems})

    def write(self, folder: Path) -> None:
        """Write the documents that there are; those that aren't any more go."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.unread:
            (folder / name).unlink(missing_ok=True)
        for name, document in self.documents.items():
            (folder / name).write_text(render(document), encoding="utf-8")


def extract(tree: Tree, help_text: str | None = None) -> Extract:
    """Every document; one that isn't wholly understood is left out."""
    structs = Structs(tree)
    of_structs = tree.take()

    def options() -> dict[str, Any]:
        document = extract_options(tree, structs)
        if help_text is not None:
            _check_help(tree, document, help_text)
        return document

    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "routes.json": lambda: extract_routes(tree),
        "fields.json": lambda: extract_fields(tree, structs),
        "bodies.json": lambda: extract_bodies(tree),
        "reply_keys.json": lambda: extract_replies(tree),
        "options.json": options,
        "errors.json": lambda: extract_errors(tree),
        "metrics.json": lambda: extract_metrics(tree),
        "functions.json": lambda: extract_functions(tree),
    }
    documents: dict[str, dict[str, Any]] = {}
    unread: dict[str, list[Problem]] = {}
    for name, make in makers.items():
        document = make()
        problems = tree.take()
        if name in _FROM_STRUCTS:
            problems = of_structs or problems
        if problems:
            unread[name] = problems
        else:
            documents[name] = document
    build = extract_build(tree.root, documents)
    if unread:
        build["unread"] = {name: [str(p) for p in problems] for name, problems in unread.items()}
    return Extract({**documents, "build.json": build}, unread)


def _check_help(tree: Tree, document: dict[str, Any], text: str) -> None:
    """Compare the options with what the program prints, and add what only it knows."""
    entries, problems = parse_help(text)
    tree.problems += problems or compare(document["options"], entries)
    complete(document["options"], entries)
    document["counts"]["printed_by_help"] = len(entries)


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 if the files were written, 1 if something wasn't recognised."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen extract",
        description="Read the facts of a llama.cpp build from its source.",
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="an unpacked llama.cpp tree")
    parser.add_argument(
        "--help-text",
        metavar="FILE_OR_BINARY",
        type=Path,
        help="what llama-server --help prints, or llama-server itself: compared with the source",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="where to write (%(default)s)")
    parser.add_argument(
        "--partial",
        action="store_true",
        help="write the files that can be read although others can't; the exit status stays 1",
    )
    arguments = parser.parse_args(argv)

    tree = Tree(arguments.source)
    try:
        help_text = read_help(arguments.help_text) if arguments.help_text else None
    except HelpError as error:
        print(error, file=sys.stderr)
        return 1
    found = extract(tree, help_text)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if found.unread and not arguments.partial:
        print(f"{count(found.problems)}; nothing was written", file=sys.stderr)
        return 1
    found.write(arguments.out)
    if found.unread:
        names = ", ".join(found.unread)
        print(f"{count(found.problems)}; not written: {names}", file=sys.stderr)
        return 1
    return 0


def count(problems: Sequence[Problem]) -> str:
    """How many there are, for a message."""
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
