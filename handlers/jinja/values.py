"""The values of templates and what all of them can do: print, compare, count as true.

A value is bytes (a text), bool, int, float, None, list, tuple, dict, or one of the classes here.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from handlers.jinja.errors import TemplateError

Value: TypeAlias = Any


class Undefined:
    """What isn't there; `hint` says in errors what it was to be."""

    __slots__ = ("hint",)

    def __init__(self, hint: str = "") -> None:
        self.hint = hint


class Kwarg:
    """A keyword argument on its way into a call."""

    __slots__ = ("key", "value")

    def __init__(self, key: str, value: Value) -> None:
        self.key = key
        self.value = value


class Function:
    """Something to call; a builtin of a value is bound to it."""

    __slots__ = ("bound", "call", "name")

    def __init__(
        self, name: str, call: Callable[[Any], Value], bound: tuple[Value, ...] = ()
    ) -> None:
        self.name = name
        self.call = call
        self.bound = bound


class BareObject(dict[Value, Value]):
    """An object without builtins: `loop`."""


class _Tracked:
    """A value that remembers how a template used it."""

    used: bool
    ops: set[str]


class TrackedText(bytes, _Tracked):
    """A text that remembers how it was used."""


class TrackedList(list[Value], _Tracked):
    """An array that remembers how it was used."""


class TrackedDict(dict[Value, Value], _Tracked):
    """An object that remembers how it was used."""


def from_json(value: Any, *, tracked: bool = False) -> Value:
    """A JSON value as templates get it; tracked ones remember their use."""
    made: Value
    if isinstance(value, str):
        made = value.encode("utf-8", "surrogateescape")
        return _track(TrackedText(made)) if tracked else made
    if isinstance(value, list):
        made = [from_json(item, tracked=tracked) for item in value]
        return _track(TrackedList(made)) if tracked else made
    if isinstance(value, dict):
        made = {
            from_json(key, tracked=tracked): from_json(item, tracked=tracked)
            for key, item in value.items()
        }
        return _track(TrackedDict(made)) if tracked else made
    if isinstance(value, int) and not isinstance(value, bool):
        return int64(value)
    return value


def _track(value: Value) -> Value:
    value.used = False
    value.ops = set()
    return value


def mark_used(value: Value, *ops: str, deep: bool = False) -> None:
    """Note that a tracked value was used, with all it holds if `deep`."""
    if isinstance(value, _Tracked):
        value.used = True
        value.ops.update(ops)
    if deep and isinstance(value, list | tuple):
        for item in value:
            mark_used(item, deep=True)
    elif deep and isinstance(value, dict):
        for key, item in value.items():
            mark_used(key, deep=True)
            mark_used(item, deep=True)


def int64(value: int) -> int:
    """An integer wrapped to 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def int_of_double(value: float) -> int:
    """A double cut to 64 bits, as x86-64 does it."""
    if not -(2.0**63) <= value < 2.0**63:
        return -(2**63)
    return int(value)


def type_name(value: Value) -> str:
    """The name of the type, as errors have it."""
    if isinstance(value, Undefined):
        return f"Undefined (hint: '{value.hint}')" if value.hint else "Undefined"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "None"


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bytes, "String"),
    (bool, "Boolean"),
    (int, "Integer"),
    (float, "Float"),
    (list, "Array"),
    (tuple, "Tuple"),
    (dict, "Object"),
    (Function, "Function"),
    (Kwarg, "KwArg"),
)


def is_number(value: Value) -> bool:
    """Whether it is an integer or a float; a boolean is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: Value) -> bool:
    """Whether it is an integer and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def truth(value: Value) -> bool:
    """Whether it counts as true."""
    if isinstance(value, Undefined):
        return False
    if isinstance(value, Function | Kwarg):
        raise TemplateError(f"{type_name(value)} is not a bool value")
    return bool(value)


def as_int(value: Value) -> int:
    """The integer."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int_of_double(value) if math.isfinite(value) else 0
    raise TemplateError(f"{type_name(value)} is not an int value")


def as_float(value: Value) -> float:
    """The number as a double; an integer that none equals is infinite."""
    if is_number(value):
        number = float(value)
        if isinstance(value, int) and int_of_double(number) != value:
            return math.copysign(math.inf, number)
        return number
    raise TemplateError(f"{type_name(value)} is not a float value")


def as_text(value: Value) -> bytes:
    """What a value reads as, in Python's spelling."""
    if isinstance(value, bytes):
        return bytes(value)
    if value is None:
        return b"None"
    if isinstance(value, bool | int):
        return str(value).encode()
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, tuple):
        inner = b", ".join(_repr(item) for item in value)
        return b"(" + inner + (b",)" if len(value) == 1 else b")")
    if isinstance(value, list):
        return b"[" + b", ".join(_repr(item) for item in value) + b"]"
    if isinstance(value, dict):
        pairs = (_repr(key) + b": " + _repr(item) for key, item in value.items())
        return b"{" + b", ".join(pairs) + b"}"
    raise TemplateError(f"{type_name(value)} is not a string value")


def _float_text(value: float) -> bytes:
    text = f"{value:f}".rstrip("0")
    return (text + "0" if text.endswith(".") else text).encode()


def _repr(value: Value) -> bytes:
    if isinstance(value, bytes):
        return to_json(value) if b"'" in value else b"'" + value + b"'"
    if isinstance(value, Undefined):
        return type_name(value).encode("latin-1", "replace")
    if isinstance(value, Function):
        inner = b"".join(_repr(bound) for bound in value.bound)
        return b"Function<" + value.name.encode("latin-1", "replace") + b">(" + inner + b")"
    return as_text(value)


def printed(value: Value) -> bytes:
    """What an expression writes: arrays one item after the other, None and objects nothing."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, list | tuple):
        return b"".join(map(printed, value))
    if isinstance(value, int | float):
        return as_text(value)
    return b""


def is_hashable(value: Value) -> bool:
    """Whether it can be an object's key, if it is immutable too."""
    if isinstance(value, list | tuple):
        return all(is_immutable(item) and is_hashable(item) for item in value)
    if isinstance(value, dict):
        return all(is_immutable(item) and is_hashable(item) for item in value.values())
    return not isinstance(value, Undefined | Function)


def is_immutable(value: Value) -> bool:
    """Whether it can't change."""
    return not isinstance(value, list | dict)


def checked_key(key: Value) -> Value:
    """The key itself; TemplateError if it can't be one."""
    if isinstance(key, bytes) or (is_immutable(key) and is_hashable(key)):
        return key
    raise TemplateError(f"Object key of unhashable type: {type_name(key)}")


def equal(one: Value, other: Value) -> bool:
    """`==`: arrays and objects only if what they hold can't change."""
    if isinstance(one, bytes) or isinstance(other, bytes):
        return isinstance(one, bytes) and isinstance(other, bytes) and one == other
    if isinstance(one, int | float):
        return isinstance(other, int | float) and one == other
    if isinstance(one, Undefined) or isinstance(other, Undefined):
        return isinstance(one, Undefined) and isinstance(other, Undefined)
    if one is None or other is None:
        return one is None and other is None
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return isinstance(one, list) == isinstance(other, list) and _all_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return (
            is_hashable(one)
            and is_hashable(other)
            and _all_equal(tuple(one.keys()), tuple(other.keys()))
            and _all_equal(tuple(one.values()), tuple(other.values()))
        )
    return one is other


def _all_equal(ones: list[Value] | tuple[Value, ...], others: Iterable[Value]) -> bool:
    others = tuple(others)
    return (
        len(ones) == len(others)
        and is_hashable(ones)
        and is_hashable(others)
        and all(map(equal, ones, others))
    )


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "ge": lambda a, b: bool(a >= b),
    "gt": lambda a, b: bool(a > b),
    "lt": lambda a, b: bool(a < b),
}


def compare(one: Value, other: Value, op: str) -> bool:
    """How sorting and the comparing tests see it: a text and a number compare as texts."""
    numbers, texts = is_number(one) + is_number(other), isinstance(one, bytes) + isinstance(
        other, bytes
    )
    if numbers == 2:
        return _COMPARE[op](as_float(one), as_float(other))
    if texts and texts + numbers == 2:
        return _COMPARE[op](as_text(one), as_text(other))
    if isinstance(one, bool) and isinstance(other, bool):
        if op in ("eq", "ne"):
            return _COMPARE[op](one, other)
        raise TemplateError("Unsupported comparison operator for bool type")
    return False


def to_json(
    value: Value, indent: int = -1, item: bytes = b", ", key: bytes = b": ", level: int = 0
) -> bytes:
    """JSON text; below 0, `indent` keeps it on one line."""
    if value is None or isinstance(value, Undefined):
        return b"null"
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        return f"{value:.6g}".encode()
    if isinstance(value, bytes):
        return b'"' + value.decode("latin-1").translate(_JSON_ESCAPES).encode("latin-1") + b'"'
    if isinstance(value, list | tuple):
        parts = [to_json(part, indent, item, key, level + 1) for part in value]
        return _json_block(b"[", parts, b"]", indent, item, level)
    if isinstance(value, dict):
        parts = [
            to_json(as_text(name)) + key + to_json(part, indent, item, key, level + 1)
            for name, part in value.items()
        ]
        return _json_block(b"{", parts, b"}", indent, item, level)
    return b"null"


def _json_block(
    start: bytes, parts: list[bytes], end: bytes, indent: int, item: bytes, level: int
) -> bytes:
    if not parts:
        return start + end
    line_end = b"\n" if indent >= 0 else b""
    outer = b" " * (level * max(indent, 0))
    inner = outer + b" " * max(indent, 0)
    lines = (item + line_end).join(inner + part for part in parts)
    return start + line_end + lines + line_end + outer + end


_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    12: "\\f",
    10: "\\n",
    13: "\\r",
    9: "\\t",
}
