"""Rules that hold between the spec and the extracted facts of the pinned build."""

from typing import Any

from codegen.model import Body, Field, Spec
from codegen.problems import Problems


def check_decisions(spec: Spec, problems: Problems) -> None:
    """Every upstream route, field and option stands in the spec, with a decision, and no others."""
    with problems.at("spec/routes.json"):
        _same(
            [_route(r) for r in spec.upstream["routes"]["routes"]],
            [f"{r.method} {r.path}" for r in spec.routes],
            "route",
            problems,
            ordered=False,
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


def _route(route: dict[str, Any]) -> str:
    """An extracted route's method and path; one that only the environment names by its variable."""
    return f"{route['method']} {route['path'] or '/$' + route['path_variable']}"


def spellings(option: dict[str, object]) -> str:
    """An extracted option's spellings on one line."""
    names = option["spellings"]
    return " ".join(map(str, names)) if isinstance(names, list) else str(names)


def _check_fields(spec: Spec, body: Body, problems: Problems) -> None:
    facts = spec.upstream["fields"]["fields"]
    _same([f["name"] for f in facts], [f.name for f in body.fields], "field", problems)
    ours = {f.name: f for f in body.fields}
    for fact in facts:
        mine = ours.get(fact["name"])
        if mine is not None:
            with problems.at(mine.name):
                _check_field(fact, mine, problems)


def _check_field(fact: dict[str, Any], mine: Field, problems: Problems) -> None:
    """One field's aliases, type and limits are the extracted ones."""
    if list(mine.aliases) != fact["aliases"]:
        problems.add(f"aliases are {list(mine.aliases)}, upstream's {fact['aliases']}")
    if mine.compiled_out != fact["compiled_out"]:
        problems.add("compiled_out differs from upstream's")
    if mine.wire not in ("custom", fact["wire"]):
        problems.add(f"wire is {mine.wire}, upstream's {fact['wire']}")
    limits = fact["limits"]
    kind = {"hard": "reject", "soft": "clamp"}[limits["kind"]] if limits else None
    given = mine.schema["x-llama"].get("limits", {})
    if [*given] != ([kind] if kind else []):
        problems.add(f"limits are {given}, upstream's {limits}")
    elif limits:
        for bound, end in zip(given[kind], ("min", "max"), strict=True):
            if bound not in (limits[f"{end}_value"], _name(limits[end])):
                problems.add(f"{end} is {bound}, upstream's {limits[end]}")


def _name(expression: str) -> str:
    """A bound's name in the spec, from upstream's expression for it."""
    known = {
        "std::numeric_limits<float>::infinity()": "INFINITY",
        "std::numeric_limits<int64_t>::max()": "INT64_MAX",
        "-std::numeric_limits<float>::max()": "-FLOAT_MAX",
    }
    return known.get(expression, expression.removeprefix("params_base."))


def _same(
    upstream: list[str], ours: list[str], what: str, problems: Problems, *, ordered: bool = True
) -> None:
    """Both lists hold the same things, and in the same order where that means something."""
    for name in upstream:
        if name not in ours:
            problems.add(f"{what} {name!r} of the pinned build has no decision: add its status")
    for name in ours:
        if name not in upstream:
            problems.add(f"{what} {name!r} is not in the pinned build")
    if ordered and sorted(upstream) == sorted(ours) and upstream != ours:
        first = next(a for a, b in zip(upstream, ours, strict=True) if a != b)
        problems.add(f"order differs from upstream's, first at {what} {first!r}")
