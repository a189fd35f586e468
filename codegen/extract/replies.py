"""The keys that each function writes into JSON objects, so that an added one is noticed."""

from __future__ import annotations

from typing import Any

from codegen.extract.cpp import Source, literal
from codegen.extract.reads import written_key
from codegen.extract.scopes import Function, functions, owner
from codegen.extract.tree import Tree

FILES = "tools/server/*.cpp"


def extract_replies(tree: Tree) -> dict[str, Any]:
    """`reply_keys.json`: file → function → keys in source order.

    `literals` are keys of JSON literals, with a slash below another key; `assigned` are those
    of `object["key"] = value`, as `object: key`. Where one of two keys is chosen, a bar
    stands between them.
    """
    files = {}
    count = 0
    for path in tree.paths(FILES):
        source = tree.source(path).live
        found = functions(source)
        per_function: dict[str, dict[str, list[str]]] = {}
        for name, kind, key in _keys(source, found):
            entry = per_function.setdefault(name, {"literals": [], "assigned": []})
            if key not in entry[kind]:
                entry[kind].append(key)
                count += 1
        if per_function:
            files[path] = per_function
    if not files:
        tree.missing(FILES, "no key is written into JSON")
    return {"counts": {"keys": count}, "files": files}


def _keys(source: Source, found: list[Function]) -> list[tuple[str, str, str]]:
    """Function, kind and key of every key that is written."""
    keys = []
    pairs = _pairs(source)
    for i in range(len(source)):
        if i in pairs:
            above = [pairs[j] for j in pairs if j < i < source.close(j)]
            kind, key = "literals", "/".join([*above, pairs[i]])
        else:
            written = written_key(source, i)
            if written is None:
                continue
            kind, key = "assigned", ": ".join(written)
        function = owner(found, i)
        if function is not None:
            keys.append((function.name, kind, key))
    return keys


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
