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
from codegen.extract.metrics import extract_metrics
from codegen.extract.options import extract_options
from codegen.extract.render import render
from codegen.extract.replies import extract_replies
from codegen.extract.routes import extract_routes
from codegen.extract.structs import Structs
from codegen.extract.tree import Tree

OUT = Path("spec/upstream")


def extract(tree: Tree) -> dict[str, dict[str, Any]]:
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
    return {**documents, "build.json": extract_build(tree.root, documents)}


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 if the files were written, 1 if something wasn't recognised."""
    parser = argparse.ArgumentParser(prog="python -m codegen extract", description=__doc__)
    parser.add_argument("source", metavar="SRC", type=Path, help="an unpacked llama.cpp tree")
    parser.add_argument("--out", type=Path, default=OUT, help="where to write (%(default)s)")
    arguments = parser.parse_args(argv)

    tree = Tree(arguments.source)
    documents = extract(tree)
    if tree.problems:
        for problem in sorted(tree.problems):
            print(problem, file=sys.stderr)
        print(f"{len(tree.problems)} problems; nothing was written", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (arguments.out / name).write_text(render(document), encoding="utf-8")
    return 0
