"""Derives probes from the spec: each field and each route with input that isn't as it should be."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from codegen.capture.covers import NATIVE
from codegen.capture.probes import Group, Json, Probe, Request
from codegen.model import Body, Field, Route, Spec

_PARALLEL = 2
_BOUNDS: dict[str, Json] = {
    "INT32_MAX": 2**31 - 1,
    "INT64_MAX": 2**63 - 1,
    "FLOAT_MAX": 3.4028234663852886e38,
    "-FLOAT_MAX": -3.4028234663852886e38,
    "n_parallel": _PARALLEL,
}
_BASE: dict[str, Json] = {
    "prompt": "the",
    "n_predict": 1,
    "temperature": 0,
    "response_fields": ["generation_settings"],
}
_TYPES: dict[str, Json] = {
    "null": None,
    "true": True,
    "false": False,
    "text": "7",
    "empty_text": "",
    "empty_list": [],
    "list": [1],
    "text_list": ["a"],
    "empty_object": {},
    "object": {"a": 1},
    "zero": 0,
    "one": 1,
    "minus_one": -1,
    "fraction": 1.9,
}
_ENDS_AT_ONCE = [[2, 1000.0]]
"""A bias that makes the made model end its text, for values that would let it talk on."""
_WRONG_BODIES: dict[str, str] = {
    "empty": "",
    "malformed": '{"prompt": ',
    "number": "7",
    "text": '"text"',
    "null": "null",
    "array": "[]",
    "object": "{}",
}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_EXAMPLES: dict[str, tuple[str, dict[str, Json]]] = {
    "chat_completions": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "the"}], "max_tokens": 1, "temperature": 0},
    ),
    "tokenize": ("/tokenize", {"content": "the in"}),
    "detokenize": ("/detokenize", {"tokens": [70, 71]}),
    "completion_task": ("/completion", _BASE),
}


def derived_groups(spec: Spec) -> list[Group]:
    """All derived groups, in an order that doesn't matter: each probe stands alone."""
    body = spec.bodies[NATIVE]
    return [
        Group("derived_field_types", "two", tuple(_types(body))),
        Group("derived_field_limits", "two", tuple(_limits(body))),
        Group("derived_field_aliases", "two", tuple(_aliases(body))),
        Group("derived_field_order", "two", tuple(_pairs(body))),
        Group("derived_other_fields", "two", tuple(_others(spec))),
        Group("derived_route_methods", "one", tuple(_methods(spec))),
        Group("derived_route_bodies", "one", tuple(_bodies(spec))),
    ]


def _types(body: Body) -> Iterator[Probe]:
    """Each live field with each JSON type."""
    for field in body.live:
        for kind, value in _TYPES.items():
            yield _native(f"{field.name}_{kind}", field, {field.name: value})


def _limits(body: Body) -> Iterator[Probe]:
    """Each number just inside and just outside its limits and those of its type."""
    for field in body.live:
        for label, value in _edges(field):
            yield _native(f"{field.name}_{label}", field, {field.name: value})


def _edges(field: Field) -> Iterator[tuple[str, Json]]:
    whole = field.wire in ("int32", "int64", "uint32")
    if not whole and field.wire != "float32":
        return
    step = 1 if whole else 0.001
    limits = field.schema["x-llama"].get("limits", {})
    for low, high in limits.values():
        bottom, top = (_BOUNDS.get(b, b) if isinstance(b, str) else b for b in (low, high))
        if bottom != "INFINITY":
            yield "below_low", bottom - step
            yield "low", bottom
            yield "above_low", bottom + step
        if top != "INFINITY":
            yield "below_high", top - step
            yield "high", top
            yield "above_high", top + step
    yield "fraction_below_one", 0.5
    yield "negative_fraction", -0.5
    if whole:
        yield "two_to_32", 2**32
        yield "huge", 10**30
    else:
        yield "too_large_for_float32", 1e39
        yield "many_digits", 0.123456789


def _aliases(body: Body) -> Iterator[Probe]:
    """Each spelling alone, with a wrong type, and behind earlier ones that are null or set."""
    for field in body.live:
        names = (field.name, *field.aliases)
        if len(names) == 1:
            continue
        for number, name in enumerate(names):
            good: Json = "" if field.wire == "custom" else 1
            yield _native(f"{name}_alone", field, {name: good})
            yield _native(f"{name}_wrong_type", field, {name: "x"})
            yield _native(f"{name}_list", field, {name: [1]})
            yield _native(f"{name}_negative", field, {name: -5})
            if number:
                earlier: dict[str, Json] = dict.fromkeys(names[:number])
                yield _native(f"{name}_after_null", field, {**earlier, name: good})
                yield _native(f"{name}_after_null_wrong", field, {**earlier, name: "x"})
                yield _native(f"{name}_after_one", field, {names[0]: good, name: "x"})


def _pairs(body: Body) -> Iterator[Probe]:
    """Two wrong fields, the later one first in the body: the schema's first is named."""
    wrong: list[tuple[Field, Json]] = [
        (f, "x" if f.wire in ("int32", "int64", "uint32", "float32", "bool") else 7)
        for f in body.live
        if f.wire != "custom"
    ]
    for (first, a), (second, b) in pairwise(wrong):
        values = {second.name: b, first.name: a}
        yield _native(f"{first.name}_before_{second.name}", first, values)


def _native(name: str, field: Field, values: dict[str, Json]) -> Probe:
    """A native completion with the values over the base; nested fields go into their parent."""
    if field.parent:
        values = {field.parent: values}
    body = {**_BASE, **values}
    if field.name == "n_predict":
        body["logit_bias"] = _ENDS_AT_ONCE
        if field.name not in values:
            del body[field.name]
    if field.name == "response_fields":
        body["id_slot"] = 0
    return Probe(name.replace(".", "_"), _post("/completion", body), (f"field:{field.name}",))


def _others(spec: Spec) -> Iterator[Probe]:
    """The fields that other bodies have of their own, with each JSON type, and left out."""
    for name, (path, base) in _EXAMPLES.items():
        for field in spec.bodies[name].fields:
            covers = (f"field:{name}.{field.name}",)
            for kind, value in _TYPES.items():
                body = {**base, field.name: value}
                yield Probe(f"{name}_{field.name}_{kind}", _post(path, body), covers)
            body = {k: v for k, v in base.items() if k != field.name}
            yield Probe(f"{name}_{field.name}_left_out", _post(path, body), covers)


def _methods(spec: Spec) -> Iterator[Probe]:
    """Each path with the methods that it doesn't have."""
    for path in dict.fromkeys(r.path for r in _recordable(spec)):
        own = {r.method for r in spec.routes if r.path == path}
        for method in _METHODS:
            if method not in own:
                yield Probe(f"{method} {path}", Request(method, _filled(path)))


def _bodies(spec: Spec) -> Iterator[Probe]:
    """Each route that reads a body with bodies that aren't objects, and with an empty one."""
    for route in _recordable(spec):
        if route.body is None:
            continue
        for kind, raw in _WRONG_BODIES.items():
            request = Request(route.method, _filled(route.path), raw=raw)
            yield Probe(f"{route.path} {kind}", request)


def _recordable(spec: Spec) -> Iterator[Route]:
    return (r for r in spec.routes if "$" not in r.path)


def _filled(path: str) -> str:
    return path.replace(":id_slot", "0")


def _post(path: str, body: dict[str, Any]) -> Request:
    return Request("POST", path, body=body, has_body=True)
