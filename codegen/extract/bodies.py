"""The keys that each function reads from JSON, so that an added one is noticed."""

from __future__ import annotations

from typing import Any

from codegen.extract.reads import Read, reads
from codegen.extract.scopes import functions
from codegen.extract.tree import Tree

FILES = "tools/server/*.cpp"


def extract_bodies(tree: Tree) -> dict[str, Any]:
    """`bodies.json`: file → function → reads, in source order; each read once per function."""
    files = {}
    count = 0
    keys = set()
    for path in tree.paths(FILES):
        source = tree.source(path).live
        found = functions(source)
        per_function: dict[str, dict[Read, None]] = {}
        for function in found:
            inside = [f for f in found if function.start < f.start < function.end]
            start = function.start
            # A lambda that is a function of its own isn't counted for the one around it.
            for stop, after in [(f.start, f.end) for f in inside] + [(function.end, 0)]:
                for read in reads(source, start, stop) if start < stop else ():
                    per_function.setdefault(function.name, {}).setdefault(read)
                start = max(start, after)
        if per_function:
            files[path] = {
                name: [read.as_json() for read in list_] for name, list_ in per_function.items()
            }
            count += sum(len(list_) for list_ in per_function.values())
            keys |= {read.key for list_ in per_function.values() for read in list_}
    if not files:
        tree.missing(FILES, "no key is read from JSON")
    return {"counts": {"reads": count, "keys": len(keys)}, "files": files}
