"""Checks that every name that one file of the spec uses stands in the file that owns it."""

import re
from collections.abc import Iterator
from typing import Any

from codegen.model import Body, Decision, Reply, Route, Spec
from codegen.problems import Problems


def check_names(spec: Spec, problems: Problems) -> None:
    """Write down every name that nothing has."""
    _check_routes(spec, problems)
    for body in spec.bodies.values():
        with problems.at(f"spec/fields/{body.name}.json"):
            _check_body(body, spec, problems)
    for reply in spec.replies.values():
        with problems.at(f"spec/replies/{reply.name}.json"):
            _check_references(reply, spec, problems)
    with problems.at("spec/errors.json"):
        for text in spec.error_texts:
            if text.kind not in spec.error_kinds:
                problems.add(f"{text.name}: no kind {text.kind!r}")
    _check_decisions(spec, problems)


def _check_routes(spec: Spec, problems: Problems) -> None:
    bodies: dict[str, Route] = {}
    with problems.at("spec/routes.json"):
        for route in spec.routes:
            with problems.at(f"{route.method} {route.path}"):
                _check_route(route, spec, problems)
                first = bodies.setdefault(route.handler, route)
                if route.served and first.served and route.body != first.body:
                    problems.add(
                        f"{route.handler} gets the body {route.body!r} here, but {first.body!r}"
                        f" from {first.method} {first.path}"
                    )


def _check_route(route: Route, spec: Spec, problems: Problems) -> None:
    texts = {t.name for t in spec.error_texts}
    if route.body and route.body not in spec.bodies:
        problems.add(f"no body spec/fields/{route.body}.json")
    for reply in route.replies:
        if reply not in spec.replies:
            problems.add(f"no reply spec/replies/{reply}.json")
    if route.guard and route.guard.error not in texts:
        problems.add(f"no error text {route.guard.error!r} in spec/errors.json")
    if route.answered_by == "guard":
        if not route.guard:
            problems.add("answered by its guard, but has none")
        return
    if route.guard and route.guard.setting not in _settings(spec):
        problems.add(f"no setting {route.guard.setting!r} in spec/options.json")
    if not route.served and "single" in route.modes and "route_deferred" not in texts:
        problems.add("no error text 'route_deferred' in spec/errors.json")


def _check_body(body: Body, spec: Spec, problems: Problems) -> None:
    if body.extends and body.extends not in spec.bodies:
        problems.add(f"no body spec/fields/{body.extends}.json")
    settings = _settings(spec)
    for field in body.live:
        bounds = field.limits[1:] if field.limits else ()
        for expression in (field.default_expression, *bounds):
            name = re.search(r"settings\.(\w+)", expression)
            if name and name[1] not in settings:
                problems.add(f"{field.name}: no setting {name[1]!r} in spec/options.json")


def _check_references(reply: Reply, spec: Spec, problems: Problems) -> None:
    shown = reply.schema["x-llama"].get("shows")
    if shown and shown not in spec.bodies:
        problems.add(f"no body spec/fields/{shown}.json")
    for reference in _references(reply.schema):
        if reference.removesuffix(".json") not in spec.replies:
            problems.add(f"no reply spec/replies/{reference}")


def _references(value: Any) -> Iterator[str]:
    """Every `$ref` in a schema."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _check_decisions(spec: Spec, problems: Problems) -> None:
    known = {d.id for d in spec.divergences}
    for place, decision in _decisions(spec):
        with problems.at(place):
            for name in decision.divergences:
                if name not in known:
                    problems.add(f"no divergence {name!r} in spec/divergences.json")
            _check_captures(decision.evidence, spec, problems)
    for divergence in spec.divergences:
        with problems.at(f"spec/divergences.json: {divergence.id}"):
            _check_captures(divergence.covers, spec, problems)


def _check_captures(names: tuple[str, ...], spec: Spec, problems: Problems) -> None:
    for name in names:
        if name not in spec.captures:
            problems.add(f"no capture {name!r} under spec/captures")


def _decisions(spec: Spec) -> Iterator[tuple[str, Decision]]:
    """Every decision in the spec with its place."""
    for route in spec.routes:
        yield f"spec/routes.json: {route.method} {route.path}", route.decision
    for body in spec.bodies.values():
        for parent in body.fields:
            for field in (parent, *parent.subfields):
                yield f"spec/fields/{body.name}.json: {field.name}", field.decision
    for reply in spec.replies.values():
        yield f"spec/replies/{reply.name}.json", reply.decision
    for series in spec.metrics:
        yield f"spec/metrics.json: {series.name}", series.decision


def _settings(spec: Spec) -> set[str]:
    return {option.setting for option in spec.options if option.setting}
