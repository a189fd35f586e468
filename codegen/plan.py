"""Says which files `generated/` holds and what each is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen import options
from codegen.coverage import coverage_markdown
from codegen.coverage_page import coverage_html, coverage_json
from codegen.layout import literal
from codegen.model import Body, Route, Spec
from codegen.models import body_models, reply_models
from codegen.render import render

_RUNTIME = Path(__file__).parent / "runtime"


@dataclass(frozen=True)
class Handler:
    """One function that handlers/ must have."""

    name: str
    body_type: str | None


def outputs(spec: Spec) -> dict[str, str]:
    """Every file under `generated/`, by its path there."""
    files = dict(_python(spec))
    files["COVERAGE.md"] = coverage_markdown(spec)
    files["coverage.html"] = coverage_html(spec)
    files["coverage.json"] = coverage_json(spec)
    return files


def _python(spec: Spec) -> Iterator[tuple[str, str]]:
    yield "__init__.py", render("init.py.jinja", {})
    yield "build.py", render("build.py.jinja", {"pin": spec.pin})
    yield "errors.py", render(
        "errors.py.jinja", {"kinds": spec.error_kinds.values(), "texts": spec.error_texts}
    )
    shown = [series for series in spec.metrics if series.shown]
    yield "metrics.py", render(
        "metrics.py.jinja", {"prefix": spec.metrics_prefix, "metrics": shown}
    )
    built = [r for r in spec.replies.values() if r.type == "object" and r.keys]
    requests = {reply.shows.name: reply.shows for reply in built if reply.shows}
    yield "replies.py", render(
        "replies.py.jinja", {"replies": built, "shown": [requests[n] for n in sorted(requests)]}
    )
    yield "requests/__init__.py", render("requests_init.py.jinja", {})
    for body in spec.bodies.values():
        if body.generated_reader:
            yield f"requests/{body.name}.py", render("request.py.jinja", {"body": body})
    yield "samplers.py", render("samplers.py.jinja", {"samplers": spec.samplers})
    yield "routes.py", render("routes.py.jinja", _routes(spec))
    yield "models/__init__.py", render("models_init.py.jinja", {})
    yield "models/bodies.py", body_models(spec)
    yield "models/replies.py", reply_models(spec)
    yield from options.outputs(spec.options)
    for path in sorted(_RUNTIME.glob("*.py")):
        if path.name != "__init__.py":
            yield path.name, _runtime(path)


def _runtime(path: Path) -> str:
    """A hand-written helper, copied with a line that says where it is kept."""
    docstring, rest = path.read_text(encoding="utf-8").split("\n\n", 1)
    note = f"# Copied by `python -m codegen gen` from codegen/runtime/{path.name}; edit that."
    return f"{docstring}\n{note}\n\n{rest}"


def _routes(spec: Spec) -> dict[str, object]:
    single = [r for r in (*spec.routes, *spec.own_routes) if "single" in r.modes]
    served = [r for r in single if r.served]
    bodies = {r.handler: _body_type(spec, r) for r in served}
    public = ", ".join(literal(r.path) for r in single if r.public)
    return {
        "routes": [_RouteView(r, _reader_kind(spec, r)) for r in single],
        "handlers": [Handler(name, body) for name, body in bodies.items()],
        "public_paths": f"{{{public}}}" if public else "",
        "route_bodies": _route_bodies(spec, served),
        "reads_json": any(bodies.values()),
        "guarded": any(r.guard and r.answered_by == "handler" for r in single),
    }


class _RouteView:
    """A route and who reads its body."""

    def __init__(self, route: Route, body_reader: str) -> None:
        self._route = route
        self.body_reader = body_reader

    def __getattr__(self, name: str) -> object:
        return getattr(self._route, name)


def _reader_kind(spec: Spec, route: Route) -> str:
    if route.body is None:
        return "none"
    body = spec.bodies[route.body]
    if body.read_by == "route" and body.generated_reader:
        return "route"
    return "none" if body.read_by == "nobody" else "handler"


def _body_type(spec: Spec, route: Route) -> str | None:
    kind = _reader_kind(spec, route)
    if kind == "route" and route.body:
        return f"{spec.bodies[route.body].title}Request"
    return "Json" if kind == "handler" else None


def _route_bodies(spec: Spec, served: list[Route]) -> list[Body]:
    names = {r.body for r in served if r.body and _reader_kind(spec, r) == "route"}
    return [spec.bodies[name] for name in sorted(names)]
