"""JSON as it is committed: two spaces, keys as given, short lists and objects on one line."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 100


def render(document: dict[str, Any]) -> str:
    """The text of one file, with a newline at its end."""
    return _value(document, 0, 0) + "\n"


def _value(value: Any, depth: int, used: int) -> str:
    """`value` as JSON, its lines indented for `depth`; `used` columns are taken on its first."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value:
        return flat
    nested = any(isinstance(item, dict | list) and item for item in _items(value))
    if depth and not nested and used + len(flat) < WIDTH:
        return flat
    inner = "  " * (depth + 1)
    if isinstance(value, list):
        lines = [inner + _value(item, depth + 1, len(inner)) for item in value]
        opening, closing = "[", "]"
    else:
        lines = []
        for key, item in value.items():
            head = f"{inner}{json.dumps(key, ensure_ascii=False)}: "
            lines.append(head + _value(item, depth + 1, len(head)))
        opening, closing = "{", "}"
    return opening + "\n" + ",\n".join(lines) + "\n" + "  " * depth + closing


def _items(value: dict[str, Any] | list[Any]) -> list[Any]:
    return value if isinstance(value, list) else list(value.values())
