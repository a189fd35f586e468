"""The keys that each function writes into JSON objects, so that an added one is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from codegen.extract.cpp import Source, literal
from codegen.extract.reads import written_key
from codegen.extract.scopes import functions, owner
from codegen.extract.tree import Tree

FILES = "tools/server/*.cpp"


def extract_replies(tree: Tree) -> dict[str, Any]:
    """`reply_keys.json`: file → function → keys in source order.

    `literals` holds the keys of each JSON literal, with a slash below another key; `assigned`
    those of `object["key"] = value`, as `object: key`. Where one of two keys is chosen, a bar
    stands between them.
    """
    files = {}
    count = 0
    for path in tree.paths(FILES):
        source = tree.source(path).live
        found = functions(source)
        per_function: dict[str, dict[str, list[Any]]] = {}
        for i, kind, keys in _writes(source):
            function = owner(found, i)
            if function is None:
                continue
            entry = per_function.setdefault(function.name, {"literals": [], "assigned": []})
            if kind == "literals":
                entry["literals"].append(keys)
            else:
                entry["assigned"] += [key for key in keys if key not in entry["assigned"]]
            count += len(keys)
        if per_function:
            files[path] = per_function
    if not files:
        tree.missing(FILES, "no key is written into JSON")
    return {"counts": {"keys": count}, "files": files}


def _writes(source: Source) -> Iterator[tuple[int, str, list[str]]]:
    """Position, kind and keys of every JSON literal and every assignment to a key."""
    pairs = _pairs(source)
    literals: dict[int, list[str]] = {}
    for i, key in pairs.items():
        above = [j for j in pairs if j < i < source.close(j)]
        outermost = min([i, *above])
        # Pairs side by side in one pair of braces are one literal.
        opening = outermost - 1
        while source.text(opening) == "," and source.text(opening - 1) == "}":
            opening = source.open(opening - 1) - 1
        path = "/".join([*(pairs[j] for j in above), key])
        literals.setdefault(opening, []).append(path)
    for i, keys in literals.items():
        yield i + 1, "literals", keys
    for i in source.find("["):
        written = written_key(source, i)
        if written is not None:
            yield i, "assigned", [": ".join(written)]


def _pairs(source: Source) -> dict[int, str]:
    """The key of every `{"key", value}`, by the position of its brace."""
    pairs = {}
    for i in source.find("{"):
        if source[i + 1].kind != "str" and source.text(i - 1) not in ("{", ","):
            continue
        spans = source.split(i + 1, source.close(i))
        if len(spans) != 2:
            continue
        tokens = source.slice(*spans[0])
        key = literal(tokens)
        choices = [token.value for token in tokens if token.kind == "str"]
        if key is None and "?" in (token.text for token in tokens) and len(choices) == 2:
            key = "|".join(choices)
        if key is not None:
            pairs[i] = key
    return pairs
