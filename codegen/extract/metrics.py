"""The Prometheus series that llama-server reports, in the order they are printed."""

from __future__ import annotations

import re
from typing import Any

from codegen.extract.cpp import Source, literal
from codegen.extract.fields import sha256
from codegen.extract.scopes import Function, functions, owner
from codegen.extract.tree import Tree

FILE_PATTERN = "tools/server/*.cpp"
ITEM = "metric_item"
PRINT = "add_items"
PREFIX = "llamacpp:"


def extract_metrics(tree: Tree) -> dict[str, Any]:
    """`metrics.json`: lists of items, and series that are written out with labels."""
    for path in tree.paths(FILE_PATTERN):
        source = tree.source(path).live
        for i in source.find(ITEM, ">"):
            function = owner(functions(source), i)
            if function is not None:
                return _document(tree, path, source, function)
    tree.missing(FILE_PATTERN, "no function lists the metrics")
    return {"source": None, "prefix": PREFIX, "metrics": []}


def _document(tree: Tree, path: str, source: Source, function: Function) -> dict[str, Any]:
    span = {"start": function.start, "end": function.end}
    kinds = {}
    for i in source.find(PRINT, "(", **span):
        arguments = source.split(i + 2, source.close(i + 1))
        if len(arguments) == 2 and (kind := literal(source.slice(*arguments[0]))):
            kinds[source.text(arguments[1][0])] = kind
    metrics = []
    for i in source.find(ITEM, ">", **span):
        if source.text(i + 3) != "=":
            continue
        name = source.text(i + 2)
        if name not in kinds:
            tree.problem(source, i, "a list of metrics is never printed")
            continue
        for start, end in source.split(i + 5, source.close(i + 4)):
            parts = source.split(start + 1, end - 1)
            texts = [literal(source.slice(*part)) for part in parts[:2]]
            if source.text(start) != "{" or len(parts) != 3 or None in texts:
                tree.problem(source, start, "unreadable metric")
                continue
            metrics.append(_metric(texts[0] or "", kinds[name], texts[1], []))
    metrics += _labelled(tree, source, function)
    if not metrics:
        tree.missing(path, "no metric can be read")
    for order, metric in enumerate(metrics):
        metric["order"] = order
    return {
        "source": path,
        "function": function.name,
        "prefix": PREFIX,
        "counts": {
            "metrics": len(metrics),
            "counter": sum(metric["kind"] == "counter" for metric in metrics),
            "gauge": sum(metric["kind"] == "gauge" for metric in metrics),
        },
        "metrics": metrics,
    }


def _metric(name: str, kind: str, help_: str | None, labels: list[str]) -> dict[str, Any]:
    return {
        "order": 0,
        "name": name,
        "kind": kind,
        "labels": labels,
        "help_sha256": sha256(help_),
    }


def _labelled(tree: Tree, source: Source, function: Function) -> list[dict[str, Any]]:
    """Series that are written out line by line, with labels."""
    text = "".join(
        token.value if token.kind == "str" else " " if token.text == ";" else ""
        for token in source.slice(function.start, function.end)
        if token.kind == "str" or token.text == ";"
    )
    found = []
    for name, kind in re.findall(rf"# TYPE {PREFIX}(\w+) (\w+)\n", text):
        help_ = re.search(rf"# HELP {PREFIX}{name} (.*)\n", text)
        series = re.search(rf"(?<!HELP )(?<!TYPE ){PREFIX}{name}\{{([^}}]*)\}}", text)
        if series is None:
            tree.missing(source.path, f"metric {name} is described and never written")
            continue
        labels = re.findall(r'(\w+)="', series.group(1))
        found.append(_metric(name, kind, help_.group(1) if help_ else None, labels))
    return found
