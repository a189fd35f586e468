"""The files of `spec/captures/`: requests with the answers of the reference, one capture a line."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.capture.probes import Group, Probe, Request


@dataclass(frozen=True)
class Capture:
    """One probe and the canonical answer to it."""

    probe: Probe
    answer: dict[str, Any]


def write(path: Path, group: Group, captures: Sequence[Capture]) -> None:
    """Write one group's file, the same bytes for the same captures."""
    head: dict[str, Any] = {"setup": group.setup}
    if group.fresh:
        head["fresh"] = True
    if group.loading:
        head["loading"] = True
    if group.compare != "exact":
        head["compare"] = group.compare
    lines = [_line(_data(capture)) for capture in captures]
    top = ", ".join(f"{_line(k)}: {_line(v)}" for k, v in head.items())
    text = "{" + top + ', "captures": [\n' + ",\n".join(lines) + "\n]}\n"
    path.write_text(text, encoding="utf-8")


def read(path: Path) -> tuple[Group, list[Capture]]:
    """A recorded group."""
    data = json.loads(path.read_text(encoding="utf-8"))
    captures = [_capture(c) for c in data["captures"]]
    group = Group(
        name=path.stem,
        setup=data["setup"],
        probes=tuple(c.probe for c in captures),
        fresh=data.get("fresh", False),
        compare=data.get("compare", "exact"),
        loading=data.get("loading", False),
    )
    return group, captures


def read_all(spec: Path) -> list[tuple[Group, list[Capture]]]:
    """Every recorded group by name."""
    return [read(path) for path in sorted((spec / "captures").glob("*.json"))]


def _data(capture: Capture) -> dict[str, Any]:
    probe = capture.probe
    data: dict[str, Any] = {
        "name": probe.name,
        "covers": list(probe.covers),
        **probe.request.data(),
    }
    if probe.during:
        data["during"] = probe.during.data()
    if probe.meanwhile:
        data["meanwhile"] = probe.meanwhile.data()
    return {**data, "answer": capture.answer}


def _capture(data: dict[str, Any]) -> Capture:
    during, meanwhile = data.get("during"), data.get("meanwhile")
    probe = Probe(
        data["name"],
        Request.read(data),
        tuple(data["covers"]),
        during=Request.read(during) if during else None,
        meanwhile=Request.read(meanwhile) if meanwhile else None,
    )
    return Capture(probe, data["answer"])


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
