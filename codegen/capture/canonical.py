"""Replaces what `spec/replies/` declares volatile by a placeholder of the same type."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codegen.capture.probes import Json

_VOLATILE_HEADERS = ("process-start-time-unix",)
_PLACEHOLDERS: dict[type, Json] = {str: "…", int: 0, float: 0.0, bool: False}


@dataclass
class Replies:
    """The reply schemas by name, and which of them were met while canonicalising."""

    schemas: dict[str, dict[str, Any]]
    met: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, spec: Path) -> "Replies":
        files = sorted((spec / "replies").glob("*.json"))
        return cls({p.stem: json.loads(p.read_text(encoding="utf-8")) for p in files})

    def canonical(self, value: Json, names: Iterable[str]) -> Json:
        """The value with placeholders, read as the best fitting of the replies named."""
        schemas = [self._named(n) for n in (*names, "error") if n in self.schemas]
        listed = isinstance(value, list) and not any(
            "items" in s for _, s in self._resolve(schemas)
        )
        # Several prompts are answered by a list of replies.
        return [self._walk(v, schemas) for v in value] if listed else self._walk(value, schemas)

    def answer(self, data: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """A whole answer as captures have it, with placeholders."""
        names = list(names)
        data = dict(data)
        data["headers"] = {
            k: "…" if k in _VOLATILE_HEADERS else v for k, v in sorted(data["headers"].items())
        }
        if "body" in data:
            data["body"] = self.canonical(data["body"], names)
        if "frames" in data:
            data["frames"] = [
                {k: self.canonical(v, names) if k == "data" else v for k, v in frame.items()}
                for frame in data["frames"]
            ]
        if "text" in data and "metrics" in names:
            data["text"] = _metrics(data["text"])
        return data

    def _named(self, name: str) -> dict[str, Any]:
        return {"$ref": f"{name}.json"}

    def _walk(self, value: Json, schemas: list[dict[str, Any]]) -> Json:
        open_schemas = list(self._resolve(schemas))
        if isinstance(value, dict):
            return self._object(value, open_schemas)
        if isinstance(value, list):
            items = [s["items"] for _, s in open_schemas if "items" in s]
            return [self._walk(item, items) for item in value]
        return value

    def _object(
        self, value: dict[str, Json], schemas: list[tuple[str | None, dict[str, Any]]]
    ) -> Json:
        """Read as the schema that knows most of the keys, and of those misses fewest."""
        if not schemas:
            return value
        name, schema = max(schemas, key=lambda s: _fit(value, s[1]))
        properties = schema.get("properties", {})
        if name and any(k in properties for k in value):
            self.met.add(name)
        result: dict[str, Json] = {}
        for key, item in value.items():
            # A key lifted by `response_fields` carries its path.
            known = properties.get(key) or self._at(properties, key.split("/"))
            if known is None:
                result[key] = item
            elif "volatile" in known.get("x-llama", {}) and type(item) in _PLACEHOLDERS:
                result[key] = _PLACEHOLDERS[type(item)]
            else:
                result[key] = self._walk(item, [known])
        return result

    def _at(self, properties: dict[str, Any], path: list[str]) -> dict[str, Any] | None:
        known: dict[str, Any] | None = None
        for key in path:
            known = properties.get(key)
            if known is None:
                return None
            resolved = list(self._resolve([known]))
            properties = resolved[0][1].get("properties", {}) if resolved else {}
        return known

    def _resolve(
        self, schemas: Iterable[dict[str, Any]]
    ) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """Schemas with their names, references followed and alternatives spread out."""
        for schema in schemas:
            if "$ref" in schema:
                name = schema["$ref"].removesuffix(".json")
                for _, found in self._resolve([self.schemas[name]]):
                    yield name, found
            elif "anyOf" in schema or "oneOf" in schema:
                yield from self._resolve(schema.get("anyOf") or schema["oneOf"])
            else:
                yield None, schema


def _fit(value: dict[str, Json], schema: dict[str, Any]) -> tuple[int, int]:
    properties = schema.get("properties", {})
    wrong = sum(
        1 for k, s in properties.items() if "const" in s and k in value and value[k] != s["const"]
    )
    missing = sum(1 for k in schema.get("required", ()) if k not in value)
    return sum(1 for k in value if k.partition("/")[0] in properties) - 2 * wrong, -missing


def _metrics(text: str) -> str:
    """Series with seconds and rates lose their values; help texts are no part of the interface."""
    lines = []
    for line in text.split("\n"):
        name, _, _ = line.partition(" ")
        if line.startswith("# HELP"):
            line = " ".join(line.split(" ")[:3]) + " …"
        elif "seconds" in name and not line.startswith("#"):
            line = f"{name} …"
        lines.append(line)
    return "\n".join(lines)
