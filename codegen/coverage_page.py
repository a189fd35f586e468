"""The coverage for looking at, and for machines: one page, and one JSON document."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from codegen.model import STATUSES, Body, Decision, Spec
from codegen.render import render

_NATIVE = "completion"
_KINDS = {
    "route": "Routes",
    "field": "Request fields",
    "option": "Command-line options",
    "reply": "Replies and frames",
}


@dataclass(frozen=True)
class Entry:
    """One thing that is decided, and what the recordings say about it."""

    kind: str
    name: str
    of: str
    """The body that a field is part of, or an option's section."""
    status: str
    description: str
    why: str
    captures: int
    agreeing: int
    divergences: tuple[str, ...]


@dataclass(frozen=True)
class Bar:
    """One row of the picture: a kind, and the share of each status in per cent."""

    title: str
    total: int
    parts: tuple[tuple[str, int, float], ...]


def entries(spec: Spec) -> list[Entry]:
    """Everything that is decided, in the spec's order."""
    return list(_entries(spec))


def coverage_json(spec: Spec) -> str:
    """`generated/coverage.json`."""
    found = entries(spec)
    document = {
        "build": spec.pin.build,
        "captures": {
            "recorded": len(spec.agreement.covers),
            "replayed": spec.agreement.replayed,
            "agreeing": spec.agreement.agreeing,
        },
        "totals": {k: dict(Counter(e.status for e in found if e.kind == k)) for k in _KINDS},
        "entries": [asdict(entry) for entry in found],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def coverage_html(spec: Spec) -> str:
    """`generated/coverage.html`."""
    found = entries(spec)
    return render(
        "coverage.html.jinja",
        {
            "build": spec.pin.build,
            "recorded": len(spec.agreement.covers),
            "replayed": spec.agreement.replayed,
            "agreeing": spec.agreement.agreeing,
            "statuses": STATUSES,
            "bars": [_bar(kind, [e for e in found if e.kind == kind]) for kind in _KINDS],
            "entries": found,
            "divergences": spec.divergences,
        },
    )


def _bar(kind: str, found: list[Entry]) -> Bar:
    tally = Counter(e.status for e in found)
    total = max(1, len(found))
    parts = tuple((s, tally[s], round(100 * tally[s] / total, 2)) for s in STATUSES if tally[s])
    return Bar(_KINDS[kind], len(found), parts)


def _entries(spec: Spec) -> Iterator[Entry]:
    for route in spec.routes:
        name = f"{route.method} {route.path}"
        yield _entry(spec, "route", name, "", route.summary, route.decision, [f"route:{name}"])
    for body in spec.bodies.values():
        yield from _fields(spec, body)
    for option in spec.options:
        covered = [f"option:{s}" for s in (*option.spellings, *option.negative)]
        name = ", ".join(option.spellings)
        yield _entry(
            spec, "option", name, option.section, option.description, option.decision, covered
        )
    for reply in spec.replies.values():
        covered = [f"reply:{reply.name}"]
        yield _entry(spec, "reply", reply.name, "", reply.description, reply.decision, covered)


def _fields(spec: Spec, body: Body) -> Iterator[Entry]:
    for parent in body.fields:
        for f in (parent, *parent.subfields):
            known = f.name if body.name == _NATIVE else f"{body.name}.{f.name}"
            shown = f"{f.parent}.{f.name}" if f.parent else f.name
            yield _entry(
                spec, "field", shown, body.name, f.description, f.decision, [f"field:{known}"]
            )


def _entry(
    spec: Spec,
    kind: str,
    name: str,
    of: str,
    description: str,
    decision: Decision,
    covered: list[str],
) -> Entry:
    captures, agreeing = spec.agreement.of(covered)
    why = f"{decision.reason} {decision.instead}".strip()
    return Entry(
        kind, name, of, decision.status, description, why, captures, agreeing, decision.divergences
    )
