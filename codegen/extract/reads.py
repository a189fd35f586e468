"""The keys that C++ reads from JSON bodies, and those it writes into JSON objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.extract.cpp import Source, literal, spell

_METHODS = frozenset(("at", "contains", "value", "count"))
_FUNCTIONS = frozenset(("json_value", "exists_and_is_array", "exists_and_is_string"))


@dataclass(frozen=True)
class Read:
    """One place where a key is read: from what, how, as which type, with which default."""

    object: str
    key: str
    accessor: str
    default: str | None
    type: str | None

    def as_json(self) -> dict[str, Any]:
        """The facts that are there, in one order."""
        facts = {
            "key": self.key,
            "object": self.object,
            "accessor": self.accessor,
            "default": self.default,
            "as": self.type,
        }
        return {name: value for name, value in facts.items() if value is not None}


def reads(source: Source, start: int, end: int) -> list[Read]:
    """The reads between two positions, each once, in source order."""
    found: dict[Read, None] = {}
    for i in range(start, end):
        read = _read(source, i)
        if read is not None:
            found.setdefault(read)
    return list(found)


def _read(source: Source, i: int) -> Read | None:
    text = source[i].text
    opening = i + 1
    if source.text(opening) == "(" and source.closes(opening):
        close = source.close(opening)
        parts = source.split(opening + 1, close)
        if text in _FUNCTIONS and len(parts) >= 2:
            key = literal(source.slice(*parts[1]))
            if key is None:
                return None
            default = spell(source.slice(*parts[2])) if len(parts) > 2 else None
            return Read(spell(source.slice(*parts[0])), key, text, default, None)
        if text in _METHODS and source.text(i - 1) in (".", "->") and parts:
            key = literal(source.slice(*parts[0]))
            if key is None:
                return None
            default = spell(source.slice(*parts[1])) if len(parts) > 1 else None
            accessor = text
            return Read(_object(source, i - 2), key, accessor, default, _cast(source, close))
        if text == "get_param" and source.text(i - 1) == "." and parts:
            key = literal(source.slice(*parts[0]))
            return None if key is None else Read(source.text(i - 2), key, "get_param", None, None)
        return None
    if text == "[" and source[i - 1].kind in ("id", "punct") and source.closes(i):
        close = source.close(i)
        key = literal(source.slice(i + 1, close))
        if key is None or not (source.text(i - 1) in (")", "]") or source[i - 1].kind == "id"):
            return None
        if _is_written(source, close):
            return None
        return Read(_object(source, i - 1), key, "[]", None, _cast(source, close))
    return None


def _is_written(source: Source, close: int) -> bool:
    """Whether what ends with the bracket at `close` is assigned or appended to."""
    after = close + 1
    while source.text(after) == "[":
        after = source.close(after) + 1
    if source.text(after) in ("=", "+="):
        return True
    return source.matches(after, ".", "push_back")


def written_key(source: Source, i: int) -> tuple[str, str] | None:
    """What object and key are written if `object["key"] = ` has its bracket at `i`."""
    if source[i].text != "[" or not source.closes(i):
        return None
    close = source.close(i)
    key = literal(source.slice(i + 1, close))
    if key is None or not _is_written(source, close):
        return None
    return _object(source, i - 1), key


def _object(source: Source, last: int) -> str:
    """The expression that ends at `last`: names, members, calls and subscripts."""
    first = last
    while True:
        if source.text(first) in (")", "]") and source.closes(first):
            first = source.open(first)
            if source[first - 1].kind == "id" or source.text(first - 1) in (")", "]"):
                first -= 1
                continue
        if source.text(first - 1) in (".", "->", "::"):
            first -= 2
            continue
        return spell(source.slice(first, last + 1))


def _cast(source: Source, close: int) -> str | None:
    """The type if `.get<type>()` follows the bracket at `close`."""
    if not source.matches(close + 1, ".", "get", "<"):
        return None
    end = close + 4
    depth = 1
    while depth:
        depth += {"<": 1, ">": -1}.get(source.text(end), 0)
        end += 1
    return spell(source.slice(close + 4, end - 1))
