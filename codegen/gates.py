"""Rules that hold between the spec and the extracted facts of the pinned build."""

from codegen.model import Body, Spec
from codegen.problems import Problems


def check_decisions(spec: Spec, problems: Problems) -> None:
    """Every upstream route, field and option stands in the spec, with a decision, and no others."""
    with problems.at("spec/routes.json"):
        _same(
            [f"{r['method']} {r['path']}" for r in spec.upstream["routes"]["routes"]],
            [f"{r.method} {r.path}" for r in spec.routes],
            "route",
            problems,
        )
    with problems.at("spec/fields/completion.json"):
        _check_fields(spec, spec.bodies["completion"], problems)
    with problems.at("spec/options.json"):
        _same(
            [spellings(o) for o in spec.upstream["options"]["options"]],
            [" ".join(o.spellings) for o in spec.options],
            "option",
            problems,
        )


def spellings(option: dict[str, object]) -> str:
    """An extracted option's spellings on one line."""
    names = option["spellings"]
    return " ".join(map(str, names)) if isinstance(names, list) else str(names)


def _check_fields(spec: Spec, body: Body, problems: Problems) -> None:
    facts = spec.upstream["fields"]["fields"]
    _same([f["names"][0] for f in facts], [f.name for f in body.fields], "field", problems)
    ours = {f.name: f for f in body.fields}
    for fact in facts:
        mine = ours.get(fact["names"][0])
        if mine is None:
            continue
        with problems.at(mine.name):
            if list(mine.aliases) != fact["names"][1:]:
                problems.add(f"aliases are {list(mine.aliases)}, upstream's {fact['names'][1:]}")
            if bool(fact.get("compiled_out")) != mine.compiled_out:
                problems.add("compiled_out differs from upstream's")
            hard = {"hard": "reject", "soft": "clamp"}.get((fact.get("limits") or {}).get("kind", ""))
            if (mine.limits[0] if mine.limits else None) != hard:
                problems.add(f"limits are {mine.limits}, upstream's {fact.get('limits')}")


def _same(upstream: list[str], ours: list[str], what: str, problems: Problems) -> None:
    """Both lists hold the same things in the same order."""
    for name in upstream:
        if name not in ours:
            problems.add(f"{what} {name!r} of the pinned build has no decision: add it with a status")
    for name in ours:
        if name not in upstream:
            problems.add(f"{what} {name!r} is not in the pinned build")
    if sorted(upstream) == sorted(ours) and upstream != ours:
        first = next(a for a, b in zip(upstream, ours, strict=True) if a != b)
        problems.add(f"order differs from upstream's, first at {what} {first!r}")
