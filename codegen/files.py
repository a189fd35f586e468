"""Reads the spec's JSON files: duplicate keys refused, each checked against its meta-schema."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from codegen.problems import Problems


def read_json(path: Path, problems: Problems) -> Any:
    """The file's value, or None with the problem written down."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, item in items:
            if key in value:
                problems.add(f"the key {key!r} stands twice in one object")
            value[key] = item
        return value

    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=pairs)
    except OSError as error:
        problems.add(f"can't be read: {error.strerror}")
    except ValueError as error:
        problems.add(f"is not JSON: {error}")
    return None


def validate(data: Any, schema: dict[str, Any], problems: Problems) -> bool:
    """Check data against a meta-schema; every mismatch becomes a problem with its path."""
    before = len(problems.found)
    for error in sorted(Draft202012Validator(schema).iter_errors(data), key=lambda e: e.json_path):
        problems.add(f"{_place(error)}{error.message}")
    return len(problems.found) == before


def is_schema(data: Any, problems: Problems) -> bool:
    """Check that data is itself a JSON Schema."""
    return validate(data, Draft202012Validator.META_SCHEMA, problems)


def _place(error: ValidationError) -> str:
    """Where in the file, in the words that the other problems use: `n_predict: `."""
    keys = [str(key) for key in error.absolute_path]
    if keys[:1] == ["properties"]:
        keys = keys[1:]
    return f"{'.'.join(keys)}: " if keys else ""
