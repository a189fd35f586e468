"""How llama-server reads the fields of a request: spellings, conversions, limits, error texts.
# Copied by `python -m codegen gen` from codegen/runtime/wire.py; edit that.

Two families. The schema's readers (`int32` … `custom`) take a body and a field's spellings in
order: the first one present and not null is read, and what goes wrong with it is a FieldError
naming that spelling. The hand-written handlers' readers (`at`, `value_or`, …) are
`common_json::at` and `json_value`. Any of them may be given a body that is no object: it has
no fields.
"""

import struct
from collections.abc import Callable
from typing import TypeVar, overload

from .jsontext import JsonError

T = TypeVar("T")
V = TypeVar("V")
N = TypeVar("N", int, float)

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
_FLOAT32_RANGE = (-FLOAT32_MAX, FLOAT32_MAX)


class FieldError(ValueError):
    """A field upstream rejects as an invalid request; `message` is its text."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# --- the schema's fields ---


def int32(
    body: object,
    *names: str,
    default: T,
    reject: tuple[int, int] | None = None,
    clamp: tuple[int, int] | None = None,
) -> int | T:
    """An int32 field: fractions are cut, bools count; `default` when no spelling is present."""
    return _number(body, names, default, get_int32, reject, clamp)


def uint32(
    body: object,
    *names: str,
    default: T,
    reject: tuple[int, int] | None = None,
    clamp: tuple[int, int] | None = None,
) -> int | T:
    """A uint32 field: as int32, and -1 is 4294967295."""
    return _number(body, names, default, get_uint32, reject, clamp)


def int64(
    body: object,
    *names: str,
    default: T,
    reject: tuple[int, int] | None = None,
    clamp: tuple[int, int] | None = None,
) -> int | T:
    """An int64 field: fractions are cut; a bool is no number here."""
    return _number(body, names, default, get_int64, reject, clamp)


def float32(
    body: object,
    *names: str,
    default: T,
    reject: tuple[float, float] | None = None,
    clamp: tuple[float, float] | None = None,
) -> float | T:
    """A float32 field as the double of that value; without limits, clamped to finite values."""
    if reject is not None:
        reject = (f32(reject[0]), f32(reject[1]))
        return _number(body, names, default, get_float32, reject, None)
    low, high = clamp or _FLOAT32_RANGE
    return _number(body, names, default, get_float32, None, (f32(low), f32(high)))


def boolean(body: object, *names: str, default: T) -> bool | T:
    """A bool field; numbers and strings are rejected."""
    return custom(body, *names, default=default, read=_of_value(get_bool))


def string(body: object, *names: str, default: T) -> str | T:
    """A str field."""
    return custom(body, *names, default=default, read=_of_value(get_string))


def json(body: object, *names: str, default: T) -> object | T:
    """A field of any type, as it stands in the body."""
    return custom(body, *names, default=default, read=at)


def custom(body: object, *names: str, default: T, read: Callable[[object, str], V]) -> V | T:
    """A field with a reader of its own, called with the body and the spelling present.

    What `read` raises as ValueError (JsonError and FieldError are) becomes a FieldError.
    """
    for name in names:
        if has(body, name):
            try:
                return read(body, name)
            except ValueError as error:
                fault, _, _ = str(error).partition("\0")  # upstream's C string ends there
                raise FieldError(f"Field '{name}': {fault}") from error
    return default


def nested(body: object, *names: str) -> dict[str, object] | None:
    """The first spelling that holds an object; null and other types are passed over."""
    if isinstance(body, dict):
        for name in names:
            value = body.get(name)
            if isinstance(value, dict):
                return value
    return None


def has(body: object, name: str) -> bool:
    """Whether `body` has a field of that name that is not null."""
    return isinstance(body, dict) and body.get(name) is not None


# --- the hand-written handlers' access ---


def contains(body: object, key: str) -> bool:
    """Whether `body` is an object with that key, null or not."""
    return isinstance(body, dict) and key in body


def at(body: object, key: str | int) -> object:
    """The member or element; JsonError with nlohmann::json's text when there is none."""
    if isinstance(key, str) and isinstance(body, dict):
        if key in body:
            return body[key]
        raise JsonError(f"[json.exception.out_of_range.403] key '{key}' not found")
    if isinstance(key, int) and isinstance(body, list):
        if 0 <= key < len(body):
            return body[key]
        raise JsonError(f"[json.exception.out_of_range.401] array index {key} is out of range")
    raise JsonError(f"[json.exception.type_error.304] cannot use at() with {type_name(body)}")


def index(body: object, key: str) -> object:
    """Upstream's `body["key"]` on a value it may change: a missing member is null, and added."""
    if isinstance(body, dict):
        return body.setdefault(key, None)
    if body is None:
        return None
    raise JsonError(
        "[json.exception.type_error.305] cannot use operator[] with a string argument with "
        + type_name(body)
    )


@overload
def value_or(body: object, key: str, default: T) -> T: ...
@overload
def value_or(body: object, key: str, default: T, get: Callable[[object], V]) -> V | T: ...
def value_or(body: object, key: str, default: T, get: Callable[[object], V] | None = None) -> V | T:
    """`json_value`: the default when the member is missing, null or of the wrong type.

    `get` converts the value; without it the default's type decides: bool, str, int (int32),
    float (float32), and any other default takes every value as it stands.
    """
    if not has(body, key):
        return default
    try:
        return get(at(body, key)) if get else _converter(default)(at(body, key))
    except JsonError:
        return default


def elements(value: object) -> list[object]:
    """What upstream's loop over `value` gives: a scalar gives itself once, null nothing."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value.values())
    return [] if value is None else [value]


def is_empty(value: object) -> bool:
    """`json::empty()`: null, [] and {}; a string never is, not even ""."""
    return not elements(value)


# --- conversions: nlohmann::json's get<T>(), on x86-64 ---


def get_int32(value: object) -> int:
    """`get<int>()`: a double that does not fit gives INT32_MIN, an integer wraps."""
    if isinstance(value, float):
        return _truncated(value, 32)
    return _wrapped(_integer(value), 32)


def get_uint32(value: object) -> int:
    """`get<unsigned>()`: the low 32 bits of the int64 conversion."""
    if isinstance(value, float):
        return _truncated(value, 64) & 0xFFFFFFFF
    return _integer(value) & 0xFFFFFFFF


def get_int64(value: object) -> int:
    """`get<int64_t>()`, which unlike the 32-bit types refuses bools."""
    if isinstance(value, bool):
        raise _wrong_type("number", value)
    if isinstance(value, float):
        return _truncated(value, 64)
    return _wrapped(_integer(value), 64)


def get_float32(value: object) -> float:
    """`get<float>()` as a double; too large is infinite."""
    if isinstance(value, float):
        return f32(value)
    return _float32_of_int(_integer(value))


def get_double(value: object) -> float:
    """`get<double>()`, which refuses bools."""
    if isinstance(value, bool):
        raise _wrong_type("number", value)
    return value if isinstance(value, float) else float(_integer(value))


def get_bool(value: object) -> bool:
    """`get<bool>()`."""
    if isinstance(value, bool):
        return value
    raise _wrong_type("boolean", value)


def get_string(value: object) -> str:
    """`get<std::string>()`."""
    if isinstance(value, str):
        return value
    raise _wrong_type("string", value)


def get_list(get: Callable[[object], V]) -> Callable[[object], list[V]]:
    """`get<std::vector<…>>()` for the element conversion `get`."""

    def convert(value: object) -> list[V]:
        if isinstance(value, list):
            return [get(item) for item in value]
        raise _wrong_type("array", value)

    return convert


def type_name(value: object) -> str:
    """The name nlohmann::json's error texts give a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def f32(value: float) -> float:
    """The double of the nearest float32, infinite beyond its range."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(rounded)


def to_string_float(value: float) -> str:
    """`std::to_string` of a float or double: six decimals."""
    return f"{value:f}"


def _number(
    body: object,
    names: tuple[str, ...],
    default: T,
    get: Callable[[object], N],
    reject: tuple[N, N] | None,
    clamp: tuple[N, N] | None,
) -> N | T:
    def read(body: object, name: str) -> N:
        value = get(at(body, name))
        if reject is not None and not reject[0] <= value <= reject[1]:
            low, high, got = _to_string(reject[0]), _to_string(reject[1]), _to_string(value)
            raise FieldError(f"Value must be between {low} <= value <= {high}, but got {got}")
        if clamp is not None:
            # std::max(low, std::min(high, value)): of equals, the limit. It shows in -0.0.
            value = value if value < clamp[1] else clamp[1]
            value = value if clamp[0] < value else clamp[0]
        return value

    return custom(body, *names, default=default, read=read)


def _to_string(value: object) -> str:
    return to_string_float(value) if isinstance(value, float) else str(value)


def _of_value(get: Callable[[object], V]) -> Callable[[object, str], V]:
    return lambda body, name: get(at(body, name))


def _converter(default: T) -> Callable[[object], T]:
    for kind, get in ((bool, get_bool), (str, get_string), (int, get_int32), (float, get_float32)):
        if isinstance(default, kind):
            return get  # type: ignore[return-value]
    return lambda value: value  # type: ignore[return-value]


def _wrong_type(wanted: str, value: object) -> JsonError:
    return JsonError(
        f"[json.exception.type_error.302] type must be {wanted}, but is {type_name(value)}"
    )


def _integer(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    raise _wrong_type("number", value)


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _truncated(value: float, bits: int) -> int:
    """A double cut to a signed integer; the least one when it does not fit, as x86-64 does."""
    least = -(1 << (bits - 1))
    if not least - 1 < value < -least:
        return least
    return int(value)


def _float32_of_int(value: int) -> float:
    """An integer rounded once to float32; by way of a double it would be rounded twice."""
    excess = abs(value).bit_length() - 53
    if excess > 0:
        sticky = 1 if abs(value) & ((1 << excess) - 1) else 0
        magnitude = (abs(value) >> excess | sticky) << excess
        value = magnitude if value > 0 else -magnitude
    return f32(float(value))
