"""Names what a probe shows: `route:METHOD PATH`, `field:NAME`, `option:--NAME`."""

from collections.abc import Iterator, Sequence

from codegen.capture.probes import Probe, Request, Setup
from codegen.model import Body, Decision, Route, Spec

NATIVE = "completion"
_DIFFERS = ("deferred", "not_applicable")


def route_of(spec: Spec, request: Request, setup: Setup) -> Route | None:
    """The route that answers a request, if any does; HEAD is answered as GET."""
    method = "GET" if request.method == "HEAD" else request.method
    path = request.path.removeprefix(setup.prefix).partition("?")[0].split("/")
    for route in spec.routes:
        parts = route.path.split("/")
        if route.method == method and len(parts) == len(path):
            pairs = zip(parts, path, strict=True)
            if all(part == given or part.startswith(":") for part, given in pairs):
                return route
    return None


def covers(spec: Spec, probe: Probe, setup: Setup) -> tuple[str, ...]:
    """What the probe says that it covers, then its route, its fields and its server's options."""
    route = route_of(spec, probe.request, setup)
    names = [*probe.covers]
    if route:
        names.append(f"route:{route.method} {route.path}")
        body = spec.bodies.get(route.body or "")
        names += [name for key in probe.keys if (name := _field(spec, body, key))]
    names += [f"option:{a}" for a in setup.arguments if _is_option(spec, a)]
    return tuple(dict.fromkeys(names))


def replies_of(spec: Spec, request: Request, setup: Setup) -> Sequence[str]:
    """The replies that the request's route may give."""
    route = route_of(spec, request, setup)
    return route.replies if route else ()


def decisions(spec: Spec) -> dict[str, Decision]:
    """What was decided about everything that can be covered."""
    found = {f"route:{r.method} {r.path}": r.decision for r in spec.routes}
    for body in spec.bodies.values():
        for field in body.fields:
            for f in (field, *field.subfields):
                found[_name(body, f.name)] = f.decision
    found |= {f"option:{s}": o.decision for o in spec.options for s in (*o.spellings, *o.negative)}
    return found | {f"reply:{r.name}": r.decision for r in spec.replies.values()}


def differing(spec: Spec) -> frozenset[str]:
    """Everything that isn't served yet or never will be, or differs on purpose."""
    later = (name for name, d in decisions(spec).items() if d.status in _DIFFERS)
    return frozenset([*later, *(f"divergence:{d.id}" for d in spec.divergences)])


def unknown(spec: Spec, names: Sequence[str]) -> Iterator[str]:
    """Names that stand for nothing in the spec."""
    known = {*decisions(spec), *(f"divergence:{d.id}" for d in spec.divergences)}
    return (name for name in names if name not in known)


def _is_option(spec: Spec, argument: str) -> bool:
    return any(argument in (*option.spellings, *option.negative) for option in spec.options)


def _field(spec: Spec, body: Body | None, key: str) -> str | None:
    """The field that a key of a body is read as, looked up in the bodies that it extends too."""
    while body:
        for f in body.fields:
            if key in (f.name, *f.aliases):
                return _name(body, f.name)
        body = spec.bodies.get(body.extends or "")
    return None


def _name(body: Body, field: str) -> str:
    return f"field:{field}" if body.name == NATIVE else f"field:{body.name}.{field}"
