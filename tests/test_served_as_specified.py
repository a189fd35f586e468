"""Nothing is served that the spec doesn't say: no other route, field or key of a reply."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from fastapi.routing import APIRoute

from codegen.capture import captures
from codegen.capture.captures import Capture
from codegen.capture.covers import route_of
from codegen.capture.http import send
from codegen.capture.probes import read_setups
from codegen.evidence import Shapes
from codegen.load import load
from generated.options import Settings
from generated.routes import bind
from handlers.table import HANDLERS
from tests.server import StartServer

ROOT = Path(__file__).parent.parent
SPEC = load(ROOT / "spec")
_READERS = {"at", "contains", "get", "has", "value_or"}


def test_every_route_stands_in_the_spec() -> None:
    router = bind(HANDLERS, SimpleNamespace(settings=Settings()))
    served = {
        (method, route.path)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    specified = {(r.method, r.template_path) for r in (*SPEC.routes, *SPEC.own_routes)}
    assert served - specified == set()


def test_every_field_that_a_handler_reads_itself_stands_in_the_spec() -> None:
    known = {
        name
        for body in SPEC.bodies.values()
        for parent in body.fields
        for field in (parent, *parent.subfields)
        for name in (field.name, *field.aliases)
    }
    # A key that upstream looks at while it reads another field is no field of its own.
    known |= {
        read["key"]
        for field in SPEC.upstream["fields"]["fields"]
        for read in field.get("handler_reads", ())
    }
    read = {
        f"{path.name}: {name}"
        for path in sorted((ROOT / "handlers").glob("*.py"))
        for name in _names_read(ast.parse(path.read_text(encoding="utf-8")))
        if name not in known
    }
    assert read == set()


def _names_read(tree: ast.Module) -> Iterator[str]:
    """Literal keys of `body["key"]`, `body.get("key")` and `wire.value_or(body, "key")`."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_body(node.value):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _READERS and len(node.args) > 1 and _is_body(node.args[0]):
                key = node.args[1]
            elif node.func.attr == "get" and _is_body(node.func.value):
                key = node.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def _is_body(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "body"


def test_every_reply_has_the_keys_of_the_spec(start_server: StartServer) -> None:
    """One plain and one streamed answer of each route, this server's own."""
    setup = read_setups(ROOT / "spec").by_name["endpoints"]
    server = start_server(*setup.arguments)
    shapes = Shapes(SPEC)
    asked: set[tuple[str, bool]] = set()
    for group, recorded in captures.read_all(ROOT / "spec"):
        if group.setup not in ("one", "endpoints") or group.loading:
            continue
        for capture in recorded:
            route = route_of(SPEC, capture.probe.request, setup)
            key = (route.function if route else "", "frames" in capture.answer)
            if route is None or not route.served or key in asked or not _is_data(capture):
                continue
            asked.add(key)
            ours = Capture(capture.probe, send(server.port, capture.probe.request).data())
            assert list(shapes.faults(ours, setup)) == [], f"{group.name}/{capture.probe.name}"
    assert len(asked) >= 20


def _is_data(capture: Capture) -> bool:
    """Whether the reference answered 200 with JSON, to a request that hasn't to wait for others."""
    answer = capture.answer
    return answer["status"] == 200 and ("body" in answer or "frames" in answer)
