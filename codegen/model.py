"""The spec as frozen dataclasses: the only place that knows what a route, a field or a reply is."""

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from codegen.agreement import Agreement
from codegen.layout import literal, string

_GETTERS = {
    "int32": "get_int32",
    "uint32": "get_uint32",
    "int64": "get_int64",
    "float32": "get_float32",
    "bool": "get_bool",
    "string": "get_string",
}

_READERS = {"bool": "boolean"}
_PYTHON_TYPES = {
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float32": "float",
    "bool": "bool",
    "string": "str",
}
_JSON_TYPES = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "array": "list[Any]",
    "object": "dict[str, Any]",
    "null": "None",
}

STATUSES = ("supported", "inert", "deferred", "not_applicable")


@dataclass(frozen=True)
class Decision:
    """Whether something is supported, and what stands in its place where it isn't."""

    status: str
    reason: str = ""
    instead: str = ""
    divergences: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guard:
    """A setting without which a route answers an error."""

    setting: str
    error: str


@dataclass(frozen=True)
class Route:
    """One method and path, and the handler behind it."""

    method: str
    path: str
    handler: str
    summary: str
    decision: Decision
    body: str | None = None
    replies: tuple[str, ...] = ()
    stream: str | None = None
    public: bool = False
    while_loading: str = "refuse"
    modes: tuple[str, ...] = ("single", "router")
    guard: Guard | None = None
    query: tuple[str, ...] = ()
    answered_by: str = "handler"

    @cached_property
    def template_path(self) -> str:
        """The path in the web framework's spelling."""
        return "/".join(f"{{{p[1:]}}}" if p.startswith(":") else p for p in self.path.split("/"))

    @cached_property
    def function(self) -> str:
        """A Python name that is unique among the routes."""
        words = [w.strip(":") for w in self.path.replace("-", "_").replace(".", "_").split("/")]
        return "_".join([self.method.lower(), *[w for w in words if w]])

    @cached_property
    def served(self) -> bool:
        """Whether a handler of ours answers it."""
        return self.answered_by == "handler" and self.decision.status in ("supported", "inert")


@dataclass(frozen=True)
class Field:
    """One key of a request body."""

    name: str
    description: str
    wire: str
    decision: Decision
    schema: dict[str, Any]
    read: str = "schema"
    limits: tuple[str, str, str] | None = None
    """("reject" or "clamp", low, high), as Python expressions."""
    aliases: tuple[str, ...] = ()
    default: Any = None
    result: str | None = None
    attribute_name: str | None = None
    compiled_out: bool = False
    parent: str | None = None
    """The nested field that it is part of."""
    subfields: tuple["Field", ...] = ()

    @property
    def attribute(self) -> str:
        """The attribute of the read request."""
        name = self.attribute_name or self.name.replace(".", "_").replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def python_type(self) -> str:
        """The type of the read value."""
        return self.result or _PYTHON_TYPES.get(self.wire, "Json")

    @property
    def default_expression(self) -> str:
        """The default, as a Python expression."""
        if isinstance(self.default, dict) and "server" in self.default:
            value = f"settings.{self.default['server']}"
            return f"wire.f32({value})" if self.wire == "float32" else value
        if isinstance(self.default, list) and self.python_type.startswith("tuple"):
            return "()" if not self.default else repr(tuple(self.default))
        return number(self.default, self.wire)

    @property
    def uses_settings(self) -> bool:
        return "settings." in self.default_expression or bool(
            self.limits and any("settings." in bound for bound in self.limits[1:])
        )

    @property
    def reader(self) -> "Call":
        """The call that reads it."""
        name = literal(self.name)
        if self.read == "raw":
            return Call("raw", ("body", name))
        if self.read == "at":
            return Call("wire.at", ("body", name)).typed(self.python_type)
        if self.read == "json_value":
            get = f"wire.{_GETTERS[self.wire]}" if self.wire in _GETTERS else "lambda value: value"
            arguments = ("body", name, self.default_expression, get)
            return Call("wire.value_or", arguments).typed(self.python_type)
        return Call(f"wire.{_READERS.get(self.wire, self.wire)}", tuple(self._schema_arguments()))

    def _schema_arguments(self) -> Iterator[str]:
        yield f"wire.nested(body, {literal(self.parent)})" if self.parent else "body"
        for name in (self.name, *self.aliases):
            yield literal(name)
        if self.wire == "custom":
            yield f"read=customs.{self.attribute}"
        yield f"default={self.default_expression}"
        if self.limits:
            kind, low, high = self.limits
            yield f"{kind}=({low}, {high})"


def number(value: Any, wire: str) -> str:
    """A literal as the reader compares it: as a float32 where the wire is one."""
    if wire != "float32" or isinstance(value, bool) or not isinstance(value, int | float):
        return literal(value)
    return f"wire.f32({float(value)!r})" if value % 1 else repr(float(value))


@dataclass(frozen=True)
class Call:
    """A function and its arguments, as Python expressions."""

    function: str
    arguments: tuple[str, ...]

    def typed(self, python_type: str) -> "Call":
        """Itself, or a cast around it when it gives an object for JSON."""
        if python_type != "Json":
            return self
        return Call("cast", ("Json", f"{self.function}({', '.join(self.arguments)})"))


@dataclass(frozen=True)
class Body:
    """One request body and how it is read."""

    name: str
    title: str
    description: str
    upstream: str
    read_by: str
    style: str
    extends: str | None
    type: str
    fields: tuple[Field, ...]
    schema: dict[str, Any]

    @cached_property
    def live(self) -> tuple[Field, ...]:
        """The fields that the pinned binary reads, nested ones in the place of their parent."""
        return tuple(
            sub
            for f in self.fields
            if not f.compiled_out
            for sub in (f.subfields if f.wire == "nested" else (f,))
        )

    @cached_property
    def count(self) -> int:
        """Fields as the coverage counts them: nested ones too, and those compiled out."""
        return sum(1 + len(f.subfields) for f in self.fields)

    @cached_property
    def customs(self) -> tuple[Field, ...]:
        """Fields whose reading is hand-written."""
        return tuple(f for f in self.live if f.wire == "custom")

    @property
    def uses_settings(self) -> bool:
        return any(f.uses_settings for f in self.live)

    @property
    def reader_parameters(self) -> tuple[str, ...]:
        """The parameters of its reader."""
        settings = ["settings: Settings"] if self.uses_settings else []
        customs = [f"customs: {self.title}Customs"] if self.customs else []
        return ("body: Json", *settings, *customs)

    @property
    def uses_infinity(self) -> bool:
        return any(f.limits and "inf" in f.limits for f in self.live)

    @property
    def typing_imports(self) -> tuple[str, ...]:
        """What its module needs from typing."""
        casts = any(f.reader.function == "cast" for f in self.live)
        return (*(["Protocol"] if self.customs else []), *(["cast"] if casts else []))

    @property
    def uses_wire(self) -> bool:
        return any(f.read != "raw" for f in self.live)

    @property
    def uses_raw(self) -> bool:
        return any(f.read == "raw" for f in self.live)

    @property
    def generated_reader(self) -> bool:
        return self.read_by != "nobody" and self.type == "object" and bool(self.live)


@dataclass(frozen=True)
class ReplyKey:
    """One key of a reply."""

    name: str
    schema: dict[str, Any]
    required: bool
    shown: Field | None = None
    """The field of a request whose value it is."""

    @property
    def parameter(self) -> str:
        name = self.name.replace(".", "_").replace("-", "_").lstrip("_")
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def constant(self) -> str | None:
        """The Python literal of a key that never varies."""
        return literal(self.schema["const"]) if "const" in self.schema else None

    @property
    def value(self) -> str:
        """The expression that it gets its value from."""
        return f"request.{self.shown.attribute}" if self.shown else self.constant or self.parameter

    @property
    def python_type(self) -> str:
        kind = self.schema.get("type")
        if isinstance(kind, list):
            return " | ".join(dict.fromkeys(_JSON_TYPES.get(k, "Any") for k in kind))
        if "$ref" in self.schema:
            return "dict[str, Any]"
        return _JSON_TYPES.get(str(kind), "Any")


@dataclass(frozen=True)
class Reply:
    """One reply body or one frame of a stream."""

    name: str
    title: str
    description: str
    upstream: str
    decision: Decision
    type: str
    keys: tuple[ReplyKey, ...]
    schema: dict[str, Any]
    event: str | None = None
    shows: Body | None = None
    """The request body whose values it shows, under the names of the fields."""

    @property
    def parameters(self) -> tuple[ReplyKey, ...]:
        """The keys whose values the caller gives, required ones first."""
        open_keys = [k for k in self.keys if k.constant is None and k.shown is None]
        return tuple(sorted(open_keys, key=lambda k: not k.required))

    @property
    def signature(self) -> tuple[str, ...]:
        """The parameters of its builder."""
        rows = [
            f"{k.parameter}: {k.python_type}" + ("" if k.required else " = ABSENT")
            for k in self.parameters
        ]
        request = [f"request: {self.shows.title}Request"] if self.shows else []
        return (*request, "*", *rows) if rows else tuple(request)

    @property
    def optional(self) -> bool:
        """Whether any key may be left out."""
        return any(not k.required for k in self.keys)


@dataclass(frozen=True)
class ErrorKind:
    name: str
    type: str
    code: int
    description: str
    shape: str = "handler"


@dataclass(frozen=True)
class ErrorText:
    """One error message and the object that it comes in."""

    name: str
    kind: str
    text: str
    parameters: tuple[str, ...]
    keys: tuple[str, ...] = ()
    own: str = ""

    @property
    def signature(self) -> tuple[str, ...]:
        """The parameters: what the text names, then the keys that it doesn't."""
        types = dict.fromkeys(self.parameters, "object") | dict.fromkeys(self.keys, "int")
        return tuple(f"{name}: {type_}" for name, type_ in types.items())

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the error that it makes."""
        message = string(self.text, 8, braces=bool(self.parameters))
        return (self.kind.upper(), message, *(f"{key}={key}" for key in self.keys))


@dataclass(frozen=True)
class Series:
    """One Prometheus series."""

    name: str
    kind: str
    help: str
    attribute: str
    decision: Decision
    label: str = ""
    """What the places in a list of figures are told apart by."""

    @property
    def shown(self) -> bool:
        """Whether GET /metrics has it."""
        return self.decision.status in ("supported", "inert")


@dataclass(frozen=True)
class SamplerName:
    """A step of the sampler chain, as clients and users call it."""

    name: str
    letter: str
    spellings: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """The name that replies show, and what is taken for it."""
        return (self.name, *self.spellings)


@dataclass(frozen=True)
class Divergence:
    id: str
    kind: str
    upstream: str
    ours: str
    why: str
    test: str
    covers: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownProblem:
    """A disagreement with the extracted facts that is meant."""

    problem: str
    reason: str


@dataclass(frozen=True)
class Unshown:
    """What is supported although no recorded answer shows it."""

    what: tuple[str, ...]
    """As captures name what they cover; an option by its last spelling."""
    reason: str


@dataclass(frozen=True)
class Pin:
    build: int
    commit: str
    recorded_package: str
    recorded_build: int
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How many facts of each kind there were when they were decided, by extracted document."""


@dataclass(frozen=True)
class Spec:
    """The whole spec."""

    pin: Pin
    routes: tuple[Route, ...]
    bodies: dict[str, Body]
    replies: dict[str, Reply]
    error_kinds: dict[str, ErrorKind]
    error_texts: tuple[ErrorText, ...]
    metrics_prefix: str
    metrics: tuple[Series, ...]
    options: tuple[Any, ...]
    samplers: tuple[SamplerName, ...]
    divergences: tuple[Divergence, ...]
    exceptions: tuple[KnownProblem, ...] = ()
    unshown: tuple[Unshown, ...] = ()
    upstream: dict[str, Any] = field(default_factory=dict)
    captures: frozenset[str] = frozenset()
    agreement: Agreement = field(default_factory=Agreement)
    own_routes: tuple[Route, ...] = ()
    """Routes of our own, at paths that no llama-server takes."""
