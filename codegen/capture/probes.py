"""Reads the written probes and the set-ups: requests, and the servers that they are sent to."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from codegen.files import read_json, validate
from codegen.problems import Problems

Json = Any


@dataclass(frozen=True)
class Request:
    """One HTTP request. `body` is sent as JSON, `raw` as it stands; not both are given."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Json = None
    raw: str | None = None
    has_body: bool = False

    @classmethod
    def read(cls, data: dict[str, Any], base: dict[str, Any] | None = None) -> "Request":
        """From a probe or a capture; `base` is a body whose keys stand for those not given."""
        method, _, path = data["request"].partition(" ")
        has_body = "body" in data or (base is not None and "raw" not in data and method == "POST")
        body = data.get("body", {} if has_body else None)
        if base is not None and isinstance(body, dict):
            body = {**base, **body}
        return cls(method, path, data.get("headers", {}), body, data.get("raw"), has_body)

    def data(self) -> dict[str, Any]:
        """What `read` reads."""
        data: dict[str, Any] = {"request": f"{self.method} {self.path}"}
        if self.headers:
            data["headers"] = self.headers
        if self.has_body:
            data["body"] = self.body
        if self.raw is not None:
            data["raw"] = self.raw
        return data

    def naming(self, id: str) -> "Request":
        """The same request with `id` where its body says "{id}"."""
        if not isinstance(self.body, dict):
            return self
        return replace(self, body={k: id if v == "{id}" else v for k, v in self.body.items()})


@dataclass(frozen=True)
class Probe:
    """One request with a name, what it shows, and what has to happen at the same time."""

    name: str
    request: Request
    covers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """The keys of the body that the probe itself names, beside those that its group adds."""
    during: Request | None = None
    """A streaming request that runs meanwhile; in the probe's body "{id}" stands for its id."""
    meanwhile: Request | None = None
    """What is sent once a streaming answer has begun; "{id}" in its body stands for its id."""


@dataclass(frozen=True)
class Group:
    """Probes that are sent in order to one server."""

    name: str
    setup: str
    probes: tuple[Probe, ...]
    fresh: bool = False
    """Needs a server that was asked nothing before."""
    compare: str = "exact"
    """"exact", or "shape" where generated text and numbers of tokens may differ."""
    loading: bool = False
    """Each probe is sent to a server that still loads its model."""


@dataclass(frozen=True, eq=False)
class Setup:
    """A server: its model and its arguments, and the environment that it sees."""

    name: str
    model: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What every path begins with."""
        return dict(pairwise(self.arguments)).get("--api-prefix", "")


@dataclass(frozen=True)
class Setups:
    """All set-ups, and the arguments that only the reference is given."""

    reference_arguments: tuple[str, ...]
    by_name: dict[str, Setup]


def read_setups(spec: Path) -> Setups:
    """`spec/setups.json`; raises SpecError."""
    data = _checked(spec, "setups.json", "setups")
    setups = {
        name: Setup(name, s["model"], tuple(s.get("arguments", ())), dict(s.get("environment", {})))
        for name, s in data["setups"].items()
    }
    return Setups(tuple(data["reference_arguments"]), setups)


def read_groups(spec: Path) -> list[Group]:
    """All written groups by name; raises SpecError."""
    return [
        _group(path.stem, _checked(spec, f"probes/{path.name}", "probes"))
        for path in sorted((spec / "probes").glob("*.json"))
    ]


def _group(name: str, data: dict[str, Any]) -> Group:
    return Group(
        name=name,
        setup=data["setup"],
        probes=tuple(_probes(data)),
        fresh=data.get("fresh", False),
        compare=data.get("compare", "exact"),
        loading=data.get("loading", False),
    )


def _probes(data: dict[str, Any]) -> Iterator[Probe]:
    for probe in data["probes"]:
        own = {"request": data.get("request"), **probe}
        base = None if probe.get("bare") else data.get("body")
        during, meanwhile = probe.get("during"), probe.get("meanwhile")
        yield Probe(
            name=probe["name"],
            request=Request.read(own, base),
            covers=tuple(probe.get("covers", ())),
            keys=tuple(probe["body"]) if isinstance(probe.get("body"), dict) else (),
            during=Request.read(during) if during else None,
            meanwhile=Request.read(meanwhile) if meanwhile else None,
        )


def _checked(spec: Path, name: str, schema: str) -> Any:
    """A file of the spec that fits its meta-schema; raises SpecError otherwise."""
    problems = Problems()
    with problems.at(f"spec/{name}"):
        data = read_json(spec / name, problems)
        meta = read_json(spec / "schema" / f"{schema}.schema.json", problems)
        problems.raise_if_any()
        validate(data, meta, problems)
    problems.raise_if_any()
    return data
