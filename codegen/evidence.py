"""Rules that hold between the spec and what was recorded: a claim has an answer that shows it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from codegen.capture import captures
from codegen.capture.captures import Capture
from codegen.capture.covers import decisions, replies_of
from codegen.capture.probes import Request, Setup, read_setups
from codegen.model import Decision, Reply, Spec
from codegen.problems import Problems

_MEND = "record one, or say in spec/exceptions.json why none can"


def check_evidence(spec: Spec, root: Path, problems: Problems) -> None:
    """Every claim is shown, every divergence diverges, every answer is as the spec says.

    `root` is the folder of the spec.
    """
    _check_claims(spec, problems)
    _check_divergences(spec, problems)
    _check_replayed(spec, problems)
    _check_captures(spec, root, problems)


def _check_claims(spec: Spec, problems: Problems) -> None:
    unshown = {name for entry in spec.unshown for name in entry.what}
    claims = dict(_claims(spec))
    for name, (keys, decision) in claims.items():
        if decision.status != "supported":
            continue
        recorded, alike = spec.agreement.of(keys)
        if not alike and name not in unshown:
            found = f"none of {recorded} recorded answers" if recorded else "no recorded answer"
            problems.add(f"{name} is supported, but {found} shows it: {_MEND}")
    with problems.at("spec/exceptions.json"):
        for name in sorted(unshown):
            keys, decision = claims.get(name, ((), Decision("unknown")))
            alike = spec.agreement.of(keys)[1]
            if decision.status != "supported":
                problems.add(f"{name} isn't supported: take it out")
            elif alike:
                problems.add(f"{name} is shown by {alike} recorded answers: take it out")


def _claims(spec: Spec) -> Iterator[tuple[str, tuple[Sequence[str], Decision]]]:
    """Routes, fields and options by name, with the names that captures cover them by."""
    for name, decision in decisions(spec).items():
        if name.startswith(("route:", "field:")):
            yield name, ([name], decision)
    for option in spec.options:
        keys = [f"option:{spelling}" for spelling in (*option.spellings, *option.negative)]
        yield f"option:{option.spellings[-1]}", (keys, option.decision)


def _check_divergences(spec: Spec, problems: Problems) -> None:
    for divergence in spec.divergences:
        recorded, alike = spec.agreement.of([f"divergence:{divergence.id}", *divergence.covers])
        if recorded and alike == recorded:
            with problems.at(f"spec/divergences.json: {divergence.id}"):
                problems.add(f"nothing diverges: all {recorded} answers are given alike")


def _check_replayed(spec: Spec, problems: Problems) -> None:
    if spec.agreement.stale:
        groups = ", ".join(spec.agreement.stale)
        problems.add(f"in spec/agreement.json: not as replayed last: {groups}: run `make coverage`")


def _check_captures(spec: Spec, root: Path, problems: Problems) -> None:
    """Every capture has an owner, and every recorded answer is one of its route's replies."""
    known = {*decisions(spec), *(f"divergence:{d.id}" for d in spec.divergences)}
    setups = read_setups(root).by_name
    shapes = Shapes(spec)
    for group, recorded in captures.read_all(root):
        with problems.at(f"spec/captures/{group.name}.json"):
            for capture in recorded:
                with problems.at(capture.probe.name):
                    if known.isdisjoint(capture.probe.covers):
                        problems.add("covers nothing that the spec has")
                    for text in shapes.faults(capture, setups[group.setup]):
                        problems.add(text)


class Shapes:
    """Says whether answers are as the replies of the spec describe them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._replies: Mapping[str, Reply] = spec.replies
        resources = [
            (f"{name}.json", DRAFT202012.create_resource(dict(reply.schema)))
            for name, reply in spec.replies.items()
        ]
        registry: Registry[Any] = Registry().with_resources(resources)
        self._validators = {
            name: Draft202012Validator({"$ref": f"{name}.json"}, registry=registry)
            for name in spec.replies
        }
        self._registry = registry
        self._constants = {v for reply in spec.replies.values() for v in _constants(reply.schema)}
        self._seen: dict[tuple[tuple[str, ...], bool, str], str | None] = {}
        self._parts: dict[tuple[int, str], bool] = {}

    def faults(self, capture: Capture, setup: Setup) -> Iterator[str]:
        """What is wrong with an answer 200 that is JSON or a stream of JSON."""
        request, answer = capture.probe.request, capture.answer
        if answer["status"] != 200:
            return
        # A path may come with escaped characters; upstream decodes it before it looks.
        names = tuple(replies_of(self._spec, replace(request, path=unquote(request.path)), setup))
        names = names or self._named(capture)
        some = _asks_for_some_keys(request)
        if "body" in answer:
            yield from self._fault("the answer", answer["body"], names, some)
        for number, frame in enumerate(answer.get("frames", ())):
            if isinstance(frame.get("data"), dict | list):
                yield from self._fault(f"frame {number}", frame["data"], (*names, "error"), some)

    def _named(self, capture: Capture) -> tuple[str, ...]:
        """The replies of the route that a capture names, if the environment gives its path."""
        covered = set(capture.probe.covers)
        named = (r for r in self._spec.routes if "$" in r.path)
        return next((r.replies for r in named if f"route:{r.method} {r.path}" in covered), ())

    def _fault(self, what: str, value: Any, names: tuple[str, ...], some: bool) -> Iterator[str]:
        value = self._outline(value)
        key = (names, some, json.dumps(value))
        if key not in self._seen:
            self._seen[key] = self._reason(value, names, some)
        reason = self._seen[key]
        if reason:
            yield f"{what} {reason}"

    def _outline(self, value: Any) -> Any:
        """A value that is as right or wrong as this one, and the same for most answers.

        Replies constrain keys, types and constants only, so other texts and numbers don't matter.
        """
        if isinstance(value, dict):
            return {key: self._outline(item) for key, item in value.items()}
        if isinstance(value, list):
            items: list[Any] = []
            for item in map(self._outline, value):
                if item not in items or isinstance(item, bool | int | float):
                    items.append(item)
            return items
        if isinstance(value, bool | None) or value in self._constants:
            return value
        if isinstance(value, str):
            return "…"
        return 0 if value == int(value) else 0.5

    def _reason(self, value: Any, names: tuple[str, ...], some: bool) -> str | None:
        """Why the value is none of these replies; None if it is one."""
        known = [name for name in names if name in self._validators]
        if not known:
            return "is given by a route without replies in the spec"
        if isinstance(value, list) and not any(self._replies[n].type == "array" for n in known):
            # Several prompts are answered by a list of replies.
            return next((r for v in value if (r := self._reason(v, names, some))), None)
        if some and isinstance(value, dict):
            wrong = [key for key in value if not self._is_part(key, value[key], known)]
            return f"has unknown or wrong parts: {', '.join(wrong)}" if wrong else None
        nearest = max(known, key=lambda name: self._likeness(name, value))
        if any(self._is(name, value) for name in (nearest, *known)):
            return None
        error = next(self._validators[nearest].iter_errors(value))
        return f"is no {nearest}: {_text(error)}"

    def _likeness(self, name: str, value: Any) -> int:
        """How many keys a value shares with a reply, less those that it lacks."""
        reply = self._replies[name]
        keys = set(value) if isinstance(value, dict) else set()
        lacking = sum(key.required and key.name not in keys for key in reply.keys)
        return sum(key.name in keys for key in reply.keys) - lacking

    def _is(self, name: str, value: Any) -> bool:
        return bool(self._validators[name].is_valid(value))

    def _is_part(self, path: str, value: Any, names: Sequence[str]) -> bool:
        """Whether one of the replies has such a value under this path, as `response_fields` has."""
        for name in names:
            schema: Any = {"$ref": f"{name}.json"}
            for key in path.split("/"):
                while schema and "$ref" in schema:
                    schema = self._replies[schema["$ref"].removesuffix(".json")].schema
                schema = (schema or {}).get("properties", {}).get(key)
            if schema and self._fits(schema, value):
                return True
        return False

    def _fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        key = (id(schema), json.dumps(value))
        if key not in self._parts:
            validator = Draft202012Validator(schema, registry=self._registry)
            self._parts[key] = validator.is_valid(value)
        return self._parts[key]


def _constants(schema: Any) -> Iterator[str | int | float]:
    """Every text and number that a schema names."""
    if isinstance(schema, list):
        for item in schema:
            yield from _constants(item)
    elif isinstance(schema, dict):
        values = [schema["const"]] if "const" in schema else schema.get("enum", ())
        yield from (v for v in values if isinstance(v, str | int | float))
        for item in schema.values():
            yield from _constants(item)


def _asks_for_some_keys(request: Request) -> bool:
    """Whether the client names the keys that it wants."""
    body = request.body
    if request.raw is not None:
        try:
            body = json.loads(request.raw.removeprefix("\ufeff"))
        except ValueError:
            return False
    return isinstance(body, dict) and bool(body.get("response_fields"))


def _text(error: ValidationError) -> str:
    place = error.json_path.removeprefix("$").removeprefix(".")
    message = error.message if len(error.message) <= 160 else f"{error.message[:160]}…"
    return f"{place}: {message}" if place else message
