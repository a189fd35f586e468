"""Reads the spec's JSON files: duplicate keys refused, each checked against its meta-schema."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from codegen.problems import Problems

_ENTRIES = (
    "divergences",
    "exceptions",
    "kinds",
    "options",
    "own",
    "routes",
    "series",
    "texts",
)
"""Top keys that only hold entries, which are known by their own names."""


def read_json(path: Path, problems: Problems) -> Any:
    """The file's value, or None with the problem written down."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) != len(items):
            keys = [key for key, _ in items]
            for key in value:
                if keys.count(key) > 1:
                    problems.add(f"the key {key!r} stands twice in one object")
        return value

    def constant(name: str) -> None:
        raise ValueError(f"there is no {name}")

    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except OSError as error:
        problems.add(f"can't be read: {error.strerror}")
    except ValueError as error:
        problems.add(f"is not JSON: {error}")
    return None


def validate(data: Any, schema: dict[str, Any], problems: Problems) -> bool:
    """Check data against a meta-schema; every mismatch becomes a problem with its path."""
    before = len(problems.found)
    for error in sorted(Draft202012Validator(schema).iter_errors(data), key=lambda e: e.json_path):
        problems.add(": ".join([*_place(data, error.absolute_path), _message(error)]))
    return len(problems.found) == before


def is_schema(data: Any, problems: Problems) -> bool:
    """Check that data is itself a JSON Schema."""
    return validate(data, Draft202012Validator.META_SCHEMA, problems)


def _message(error: ValidationError) -> str:
    schema, instance = error.schema, error.instance
    if (
        error.validator == "additionalProperties"
        and isinstance(schema, dict)
        and isinstance(instance, dict)
    ):
        known = schema.get("properties", {})
        names = ", ".join(repr(key) for key in instance if key not in known)
        return f"unknown key {names}"
    return error.message


def _place(data: Any, path: Iterable[str | int]) -> Iterator[str]:
    """A path in words: each field or entry by its name, then the keys in it, dotted."""
    keys: list[str] = []
    names_follow = False
    for depth, key in enumerate(path):
        entry = data[key]
        if names_follow or (isinstance(data, list) and isinstance(entry, dict)):
            if keys:
                yield ".".join(keys)
            keys = []
            yield _name(entry, key)
            names_follow = False
        elif key == "properties" or (depth == 0 and key in _ENTRIES):
            names_follow = isinstance(entry, dict)
        else:
            keys.append(str(key))
        data = entry
    if keys:
        yield ".".join(keys)


def _name(entry: Any, key: str | int) -> str:
    """What a field or an entry of a list is known by."""
    if isinstance(key, str) or not isinstance(entry, dict):
        return str(key)
    if "method" in entry and "path" in entry:
        return f"{entry['method']} {entry['path']}"
    if entry.get("spellings"):
        return str(entry["spellings"][-1])
    return str(entry.get("name", entry.get("id", key)))
