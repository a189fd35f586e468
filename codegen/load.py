"""Loads `spec/` into the frozen model, or says everything that is wrong with it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from codegen import agreement
from codegen.files import is_schema, read_json, validate
from codegen.model import (
    Body,
    Decision,
    Divergence,
    ErrorKind,
    ErrorText,
    Field,
    Guard,
    KnownProblem,
    Pin,
    Reply,
    ReplyKey,
    Route,
    SamplerName,
    Series,
    Spec,
    Unshown,
    number,
)
from codegen.names import check_names
from codegen.options import load_options
from codegen.problems import Problems

_BOUNDS = {
    "INT32_MAX": "wire.INT32_MAX",
    "INT64_MAX": "wire.INT64_MAX",
    "FLOAT_MAX": "wire.FLOAT32_MAX",
    "-FLOAT_MAX": "-wire.FLOAT32_MAX",
    "INFINITY": "inf",
}


_JSON_SCHEMAS = ("fields", "replies")
_NEEDED_BODIES = ("completion",)
_NEEDED_FACTS = ("build", "errors", "fields", "metrics", "options", "routes")
_DECISION = ("status", "reason", "instead", "divergences", "evidence")


def load(root: Path) -> Spec:
    """Read the spec under `root`; raises SpecError with every problem and its place."""
    problems = Problems()
    files = _Files(root, problems)
    pin = files.read("pin.json", "pin")
    routes = files.read("routes.json", "routes")
    errors = files.read("errors.json", "errors")
    metrics = files.read("metrics.json", "metrics")
    divergences = files.read("divergences.json", "divergences")
    exceptions = files.read("exceptions.json", "exceptions")
    options = files.read("options.json", "options")
    samplers = files.read("samplers.json", "samplers")
    bodies = files.read_folder("fields", "fields", _NEEDED_BODIES)
    replies = files.read_folder("replies", "replies")
    upstream = files.read_folder("upstream", None, _NEEDED_FACTS)
    problems.raise_if_any()
    requests = {name: _body(name, data) for name, data in bodies.items()}
    spec = Spec(
        pin=Pin(
            pin["build"],
            pin["commit"],
            pin["recorded_with"]["package"],
            pin["recorded_with"]["build"],
            pin["counts"],
        ),
        routes=tuple(_route(r) for r in routes["routes"]),
        bodies=requests,
        replies={name: _reply(name, data, requests) for name, data in replies.items()},
        error_kinds={name: ErrorKind(name, **kind) for name, kind in errors["kinds"].items()},
        error_texts=tuple(_error_text(name, text) for name, text in errors["texts"].items()),
        metrics_prefix=metrics["prefix"],
        metrics=tuple(_series(s) for s in metrics["series"]),
        options=load_options(options, problems),
        samplers=_samplers(samplers, problems),
        divergences=tuple(_divergence(d) for d in divergences["divergences"]),
        exceptions=tuple(KnownProblem(**e) for e in exceptions["exceptions"]),
        unshown=tuple(Unshown(tuple(u["what"]), u["reason"]) for u in exceptions["unshown"]),
        upstream=upstream,
        captures=_captures(root, problems),
        agreement=agreement.read(root),
        own_routes=tuple(_route(r) for r in routes.get("own", ())),
    )
    problems.raise_if_any()
    check_names(spec, problems)
    problems.raise_if_any()
    return spec


class _Files:
    """Reads files of the spec and checks each against its meta-schema."""

    def __init__(self, root: Path, problems: Problems) -> None:
        self.root = root
        self.problems = problems

    def read(self, name: str, schema: str | None) -> Any:
        with self.problems.at(f"spec/{name}"):
            data = read_json(self.root / name, self.problems)
            if schema is None or data is None:
                return data
            meta = read_json(self.root / "schema" / f"{schema}.schema.json", self.problems)
            if meta is None or not validate(data, meta, self.problems):
                return None
            if schema in _JSON_SCHEMAS and not is_schema(data, self.problems):
                return None
            return data

    def read_folder(
        self, name: str, schema: str | None, needed: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Every file of a folder, by its name, and those that are needed and maybe not there."""
        present = {path.stem for path in (self.root / name).glob("*.json")}
        names = sorted(present | set(needed))
        return {stem: self.read(f"{name}/{stem}.json", schema) for stem in names}


def _decision(data: dict[str, Any]) -> Decision:
    return Decision(
        data["status"],
        data.get("reason", ""),
        data.get("instead", ""),
        tuple(data.get("divergences", ())),
        tuple(data.get("evidence", ())),
    )


def _route(data: dict[str, Any]) -> Route:
    keys: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in data.items()
        if key not in _DECISION
    }
    if "guard" in keys:
        keys["guard"] = Guard(**keys["guard"])
    return Route(**keys, decision=_decision(data))


def _bound(value: Any, wire: str) -> str:
    if isinstance(value, str):
        return _BOUNDS.get(value, f"settings.{value}")
    return number(value, wire)


def _field(name: str, data: dict[str, Any], parent: str | None = None) -> Field:
    own = data["x-llama"]
    limits = None
    for kind, (low, high) in own.get("limits", {}).items():
        limits = (kind, _bound(low, own["wire"]), _bound(high, own["wire"]))
    return Field(
        name=name,
        description=data["description"],
        wire=own["wire"],
        decision=_decision(own),
        schema=data,
        read=own.get("read", "schema"),
        limits=limits,
        aliases=tuple(own.get("aliases", ())),
        default=own.get("default"),
        result=own.get("result"),
        attribute_name=own.get("attribute"),
        compiled_out=own.get("compiled_out", False),
        parent=parent,
        subfields=tuple(_field(n, d, name) for n, d in data.get("properties", {}).items())
        if own["wire"] == "nested"
        else (),
    )


def _body(name: str, data: dict[str, Any]) -> Body:
    own = data["x-llama"]
    return Body(
        name=name,
        title=data["title"],
        description=data["description"],
        upstream=own["upstream"],
        read_by=own["read_by"],
        style=own.get("style", "by_hand"),
        extends=own.get("extends"),
        type=data["type"],
        fields=tuple(_field(n, d) for n, d in data["properties"].items()),
        schema=data,
    )


def _reply(name: str, data: dict[str, Any], bodies: dict[str, Body]) -> Reply:
    own = data["x-llama"]
    required = set(data.get("required", ()))
    shows = bodies.get(own.get("shows", ""))
    keys = (ReplyKey(k, s, k in required) for k, s in data.get("properties", {}).items())
    return Reply(
        name=name,
        title=data["title"],
        description=data["description"],
        upstream=own["upstream"],
        decision=_decision(own),
        type=data.get("type", "object"),
        keys=tuple(replace(key, shown=_shown(key, shows)) for key in keys),
        schema=data,
        event=own.get("event"),
        shows=shows,
    )


def _shown(key: ReplyKey, body: Body | None) -> Field | None:
    """The field that is read under a key's name, if their types are the same too."""
    wanted = (key.name, key.python_type)
    fields = body.live if body else ()
    return next((f for f in fields if (f.attribute, f.python_type) == wanted), None)


def _error_text(name: str, data: dict[str, Any]) -> ErrorText:
    parameters = tuple(dict.fromkeys(re.findall(r"(?<!\{)\{([a-z_]+)\}", data["text"])))
    keys = tuple(data.get("keys", ()))
    return ErrorText(name, data["kind"], data["text"], parameters, keys, data.get("own", ""))


def _series(data: dict[str, Any]) -> Series:
    decision, label = _decision(data), data.get("label", "")
    return Series(data["name"], data["kind"], data["help"], data["attribute"], decision, label)


def _samplers(data: dict[str, Any], problems: Problems) -> tuple[SamplerName, ...]:
    """The samplers; no name or letter stands for two of them."""
    samplers = [
        SamplerName(s["name"], s["letter"], tuple(s.get("spellings", ()))) for s in data["samplers"]
    ]
    with problems.at("spec/samplers.json"):
        for names in ([s.letter for s in samplers], [n for s in samplers for n in s.all_names]):
            for name in dict.fromkeys(n for n in names if names.count(n) > 1):
                problems.add(f"{name} stands twice")
    return tuple(samplers)


def _divergence(data: dict[str, Any]) -> Divergence:
    return Divergence(**{**data, "covers": tuple(data.get("covers", ()))})


def _captures(root: Path, problems: Problems) -> frozenset[str]:
    """The names of all captures, as group/name."""
    names: set[str] = set()
    for path in sorted((root / "captures").glob("*.json")):
        with problems.at(f"spec/captures/{path.name}"):
            data = read_json(path, problems)
        names |= {f"{path.stem}/{c['name']}" for c in (data or {}).get("captures", ())}
    return frozenset(names)
