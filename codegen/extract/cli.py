"""The command: reads a tree, prints every problem or writes the JSON files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codegen.extract.bodies import extract_bodies
from codegen.extract.build import extract_build
from codegen.extract.errors import extract_errors
from codegen.extract.fields import extract_fields
from codegen.extract.helptext import HelpError, compare, complete, parse_help, read_help
from codegen.extract.metrics import extract_metrics
from codegen.extract.options import extract_options
from codegen.extract.render import render
from codegen.extract.replies import extract_replies
from codegen.extract.routes import extract_routes
from codegen.extract.structs import Structs
from codegen.extract.tree import Tree

OUT = Path("spec/upstream")


def extract(tree: Tree, help_text: str | None = None) -> dict[str, dict[str, Any]]:
    """Every document by file name; problems are left in `tree.problems`."""
    structs = Structs(tree)
    documents = {
        "routes.json": extract_routes(tree),
        "fields.json": extract_fields(tree, structs),
        "bodies.json": extract_bodies(tree),
        "reply_keys.json": extract_replies(tree),
        "options.json": extract_options(tree, structs),
        "errors.json": extract_errors(tree),
        "metrics.json": extract_metrics(tree),
    }
    if help_text is not None:
        _check_help(tree, documents["options.json"], help_text)
    return {**documents, "build.json": extract_build(tree.root, documents)}


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
    arguments = parser.parse_args(argv)

    tree = Tree(arguments.source)
    try:
        help_text = read_help(arguments.help_text) if arguments.help_text else None
    except HelpError as error:
        print(error, file=sys.stderr)
        return 1
    documents = extract(tree, help_text)
    problems = tree.unreadable or tree.problems
    if problems:
        for problem in sorted(problems):
            print(problem, file=sys.stderr)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        print(f"{count}; nothing was written", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (arguments.out / name).write_text(render(document), encoding="utf-8")
    return 0
