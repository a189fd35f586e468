"""The functions, tests, filters and methods of templates, each with llama.cpp's behaviour.

A filter and a method are the same thing: a builtin of the value's type, called with the value
as its first argument.
"""

import functools
import re
import time
from collections.abc import Callable
from typing import Protocol

from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.values import (
    BareObject,
    Function,
    Kwarg,
    TrackedDict,
    TrackedList,
    TrackedText,
    Undefined,
    Value,
    as_float,
    as_int,
    as_text,
    checked_key,
    compare,
    equal,
    is_integer,
    is_number,
    mark_used,
    to_json,
    truth,
    type_name,
)


class Scope(Protocol):
    """What a builtin asks of the scope it is called in."""

    tracking: bool


class Args:
    """The arguments of a call, with the value a builtin is bound to in front."""

    __slots__ = ("items", "name", "scope")

    def __init__(self, scope: Scope, items: list[Value], name: str = "") -> None:
        self.scope = scope
        self.items = items
        self.name = name

    def __len__(self) -> int:
        return len(self.items)

    def at(self, index: int) -> Value:
        """A positional argument."""
        if index < len(self.items):
            return self.items[index]
        raise TemplateError(
            f"Function '{self.name}' expected at least {index + 1} arguments,"
            f" got {len(self.items)}"
        )

    def kwarg(self, key: str, index: int = -1) -> Value:
        """A keyword argument, or the positional one in its place."""
        for item in self.items:
            if isinstance(item, Kwarg) and item.key == key:
                if isinstance(item.value, Undefined):
                    break
                return item.value
        if 0 <= index < len(self.items) and not isinstance(self.items[index], Kwarg):
            return self.items[index]
        return Undefined()

    def check_count(self, low: int, high: int = 999) -> None:
        """TemplateError unless there are that many."""
        if not low <= len(self.items) <= high:
            raise TemplateError(
                f"Function '{self.name}' expected between {low} and {high} arguments,"
                f" got {len(self.items)}"
            )

    def check_types(self, *types: str) -> None:
        """TemplateError unless the arguments are of these types; all of them have to be there."""
        self.check_count(len(types))
        for value, wanted in zip(self.items, types, strict=False):
            if not _IS[wanted](value):
                name = f"value_{wanted}_t"
                raise TemplateError(
                    f"Function '{self.name}' expected value of type"
                    f" St10shared_ptrIN5jinja{len(name)}{name}EE, got {type_name(value)}"
                )


Builtin = Callable[[Args], Value]

_IS: dict[str, Callable[[Value], bool]] = {
    "string": lambda v: isinstance(v, bytes),
    "int": is_integer,
    "float": lambda v: isinstance(v, float),
    "bool": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, dict),
}


def call(function: Value, args: Args) -> Value:
    """Call a function value."""
    if not isinstance(function, Function):
        raise TemplateError(f"Callee is not a function: got {type_name(function)}")
    return function.call(Args(args.scope, [*function.bound, *args.items], function.name))


def builtins_of(value: Value) -> dict[str, Builtin]:
    """The builtins of a value's type."""
    found = _BUILTINS.get(type(value))
    if found is None:
        raise TemplateError(f"{type_name(value)} has no builtins")
    return found


# --- functions ---


def _raise_exception(args: Args) -> Value:
    args.check_types("string")
    raise TemplateError("Jinja Exception: " + args.at(0).decode("latin-1"))


def _namespace(args: Args) -> Value:
    made: dict[Value, Value] = {}
    for item in args.items:
        if not isinstance(item, Kwarg):
            raise TemplateError("namespace() arguments must be kwargs")
        made[item.key.encode("latin-1")] = item.value
    return made


def _strftime_now(args: Args) -> Value:
    args.check_types("string")
    text = time.strftime(args.at(0).decode("utf-8", "surrogateescape")).encode(
        "utf-8", "surrogateescape"
    )
    if not 0 < len(text) < 100:
        raise TemplateError("strftime_now: failed to format time")
    return text


def _range(args: Args) -> Value:
    args.check_count(1, 3)
    args.check_types("int")
    numbers = [as_int(item) for item in args.items]
    if len(numbers) == 3 and numbers[2] == 0:
        raise TemplateError("range() step argument must not be zero")
    return list(range(*numbers))


def _tojson(args: Args) -> Value:
    args.check_count(1, 5)
    ascii_only = args.kwarg("ensure_ascii", 1)
    indent = args.kwarg("indent", 2)
    separators = args.kwarg("separators", 3)
    if args.scope.tracking:
        mark_used(args.at(0), deep=True)
    if truth(args.kwarg("sort_keys", 4)):
        raise NotImplementedInTemplate("tojson sort_keys=true not implemented")
    width = indent if is_integer(indent) else -1
    given = separators if isinstance(separators, list | tuple) else ()
    item = as_text(given[0]) if given else (b", " if width < 0 else b",")
    key = as_text(given[1]) if len(given) > 1 else b": "
    text = to_json(args.at(0), width, item, key)
    return _ascii_json(text) if truth(ascii_only) else text


def _ascii_json(text: bytes) -> bytes:
    def escaped(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be", "surrogatepass")
        return "".join(
            f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2)
        )

    return re.sub(r"[^\x00-\x7f]", escaped, text.decode("utf-8", "replace")).encode()


# --- tests ---


def _type_test(*names: str, undefined: bool = False) -> Builtin:
    checks = [_IS[name] for name in names]

    def test(args: Args) -> Value:
        args.check_count(1)
        value = args.at(0)
        return any(check(value) for check in checks) or (
            undefined and isinstance(value, Undefined)
        )

    return test


def _compare_test(op: str) -> Builtin:
    def test(args: Args) -> Value:
        args.check_count(2, 2)
        return compare(args.at(0), args.at(1), op)

    return test


def _value_test(check: Callable[[Value], bool]) -> Builtin:
    def test(args: Args) -> Value:
        args.check_count(1)
        return check(args.at(0))

    return test


def _typed_test(check: Callable[..., bool], *types: str) -> Builtin:
    def test(args: Args) -> Value:
        args.check_types(*types)
        return check(*args.items[: len(types)])

    return test


def _missing_test(name: str) -> Builtin:
    def test(args: Args) -> Value:
        raise NotImplementedInTemplate(f"{name} test not implemented")

    return test


def contains(args: Args) -> Value:
    """The test `in`."""
    args.check_count(2)
    needle, haystack = args.at(0), args.at(1)
    if isinstance(haystack, Undefined):
        return False
    if isinstance(haystack, list | tuple):
        return any(equal(needle, item) for item in haystack)
    if isinstance(haystack, bytes):
        if not isinstance(needle, bytes):
            raise TemplateError(
                "'in' test expects args[1] as string when args[0] is string,"
                f" got args[1] as {type_name(needle)}"
            )
        return needle in haystack
    if isinstance(haystack, dict):
        return checked_key(needle) in haystack
    raise TemplateError(
        f"'in' test expects iterable as first argument, got {type_name(haystack)}"
    )


TESTS: dict[str, Builtin] = {
    "boolean": _type_test("bool"),
    "callable": _value_test(lambda v: isinstance(v, Function)),
    "odd": _typed_test(lambda v: v % 2 != 0, "int"),
    "even": _typed_test(lambda v: v % 2 == 0, "int"),
    "false": _value_test(lambda v: v is False),
    "true": _value_test(lambda v: v is True),
    "divisibleby": _typed_test(lambda v, by: v % by == 0, "int", "int"),
    "string": _type_test("string"),
    "integer": _type_test("int"),
    "float": _type_test("float"),
    "number": _type_test("int", "float"),
    "iterable": _type_test("array", "string", undefined=True),
    "sequence": _type_test("array", "string", undefined=True),
    "mapping": _type_test("object"),
    "lower": _typed_test(lambda v: v == v.lower(), "string"),
    "upper": _typed_test(lambda v: v == v.upper(), "string"),
    "none": _value_test(lambda v: v is None),
    "defined": _value_test(lambda v: not isinstance(v, Undefined)),
    "undefined": _value_test(lambda v: isinstance(v, Undefined)),
    "eq": _compare_test("eq"),
    "equalto": _compare_test("eq"),
    "ge": _compare_test("ge"),
    "gt": _compare_test("gt"),
    "greaterthan": _compare_test("gt"),
    "lt": _compare_test("lt"),
    "lessthan": _compare_test("lt"),
    "ne": _compare_test("ne"),
    "in": contains,
    "test": _typed_test(lambda v: v.decode("latin-1") in TESTS, "string"),
    "sameas": _missing_test("sameas"),
    "escaped": _missing_test("escaped"),
    "filter": _missing_test("filter"),
}

FUNCTIONS: dict[str, Builtin] = {
    "raise_exception": _raise_exception,
    "namespace": _namespace,
    "strftime_now": _strftime_now,
    "range": _range,
    "tojson": _tojson,
    **{f"test_is_{name}": test for name, test in TESTS.items()},
}


# --- every type ---


def _default(args: Args) -> Value:
    args.check_count(2, 3)
    value = args.at(0)
    if truth(args.kwarg("boolean", 2)):
        missing = not truth(value)
    else:
        missing = value is None or isinstance(value, Undefined)
    return args.at(1) if missing else value


def _missing(message: str) -> Builtin:
    def builtin(args: Args) -> Value:
        raise NotImplementedInTemplate(message)

    return builtin


def _constant(make: Callable[[], Value]) -> Builtin:
    return lambda args: make()


def _typed(function: Callable[..., Value], *types: str) -> Builtin:
    def builtin(args: Args) -> Value:
        args.check_types(*types)
        return function(*args.items[: len(types)])

    return builtin


def _sliced(items: Value, start: int, stop: int, step: int) -> list[int]:
    """The indices of a slice; with a negative step, -1 stops before the first."""
    size = len(items)
    if step > 0:
        start = max(size + start, 0) if start < 0 else min(start, size)
        stop = max(size + stop, 0) if stop < 0 else min(stop, size)
    else:
        start = max(size + start, 0) if start < 0 else min(start, size - 1)
        stop = max(size + stop, -1) if stop < -1 else min(stop, size - 1)
    return [index for index in range(start, stop, step) if 0 <= index < size]


def _slice(args: Args) -> Value:
    args.check_count(1, 4)
    args.check_types("string" if isinstance(args.at(0), bytes) else "array", "int")
    numbers = [as_int(item) for item in args.items[1:]]
    # Only `[a:b]` gives all three: the filter's own arguments are never enough.
    if len(numbers) < 3:
        raise TemplateError("Undefined is not an int value")
    start, stop, step = numbers
    if step == 0:
        raise TemplateError("slice step cannot be zero")
    items = args.at(0)
    indices = _sliced(items, start, stop, step)
    if isinstance(items, bytes):
        return bytes(items[index] for index in indices)
    made = [items[index] for index in indices]
    return tuple(made) if isinstance(items, tuple) else made


# --- texts ---


def _strip(name: str, *, left: bool = True, right: bool = True) -> Builtin:
    def builtin(args: Args) -> Value:
        value = args.at(0)
        if not isinstance(value, bytes):
            raise TemplateError(f"{name}() first argument must be a string")
        chars = args.kwarg("chars", 1)
        given = None if isinstance(chars, Undefined) else as_text(chars)
        if left:
            value = value.lstrip(given)
        if right:
            value = value.rstrip(given)
        return value

    return builtin


def _split(args: Args, name: str = "split") -> Value:
    args.check_count(1, 3)
    value = args.at(0)
    if not isinstance(value, bytes):
        raise TemplateError(f"{name}() first argument must be a string")
    separator = as_text(args.at(1)) if len(args) > 1 else b" "
    if not separator:
        raise TemplateError("empty separator")
    limit = as_int(args.at(2)) if len(args) > 2 else -1
    cut = value.split if name == "split" else value.rsplit
    return list(cut(separator, max(limit, -1)))


def _replace(args: Args) -> Value:
    args.check_types("string", "string", "string")
    if len(args) > 3 and as_int(args.at(3)) > 0:
        raise NotImplementedInTemplate("String replace with count argument not implemented")
    value, old, new = args.items[:3]
    return value.replace(old, new)


def _format(args: Args) -> Value:
    value = args.at(0)
    if not isinstance(value, bytes):
        raise TemplateError("format() first argument must be a string")
    first, *rest = value.split(b"{")
    made = first
    for number, part in enumerate(rest, 1):
        if not part.startswith(b"}"):
            raise NotImplementedInTemplate("format() only supports simple '{}' placeholders")
        made += as_text(args.at(number)) + part[1:]
    return made


_INTEGER = re.compile(rb"[ \t\n\v\f\r]*([+-]?)(0[xX](?=[0-9a-fA-F])|0)?([0-9a-zA-Z]*)")


def _to_int(args: Args) -> Value:
    value, base = args.at(0), args.kwarg("base", 2)
    radix = 10 if isinstance(base, Undefined) else as_int(base)
    if radix != 0 and not 2 <= radix <= 36:
        raise TemplateError("int() base must be 0 or between 2 and 36")
    if not isinstance(value, bytes):
        raise TemplateError("int() first argument must be a string")
    number = _leading_int(value, radix)
    if number is not None:
        return number
    default = args.kwarg("default", 1)
    return 0 if isinstance(default, Undefined) else as_int(default)


def _leading_int(text: bytes, radix: int) -> int | None:
    """The number that a text begins with, as `std::stoi` reads it; None if there is none."""
    match = _INTEGER.match(text)
    if match is None:
        return None
    sign, prefix, digits = match[1], match[2] or b"", match[3]
    if prefix in (b"0x", b"0X"):
        if radix in (0, 16):
            radix = 16
        else:
            prefix, digits = b"0", b""
    elif radix == 0:
        radix = 8 if prefix else 10
    kept = b"0" if prefix == b"0" else b""
    for char in digits:
        if not chr(char).isalnum() or int(chr(char), 36) >= radix:
            break
        kept += bytes([char])
    if not kept:
        return None
    number = int(sign + kept, radix)
    return number if -(2**31) <= number < 2**31 else None


_FLOAT = re.compile(rb"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")


def _to_float(args: Args) -> Value:
    args.check_types("string")
    if match := _FLOAT.match(args.at(0)):
        return float(match[1])
    default = args.kwarg("default", 1)
    return 0.0 if isinstance(default, Undefined) else as_float(default)


def _text_default(args: Args) -> Value:
    value, default = args.at(0), b"" if len(args) < 2 else args.at(1)
    if not isinstance(value, bytes):
        raise TemplateError("default() first argument must be a string")
    if truth(args.kwarg("boolean", 2)) and not value:
        return b"" if isinstance(default, Undefined) else default
    return value


def _indent(args: Args) -> Value:
    args.check_count(1, 4)
    value, width = args.at(0), args.kwarg("width", 1)
    first, blank = truth(args.kwarg("first", 2)), truth(args.kwarg("blank", 3))
    if not isinstance(value, bytes):
        raise TemplateError("indent() first argument must be a string")
    if is_integer(width):
        indent = b" " * width
    else:
        indent = width if isinstance(width, bytes) else b"    "
    made = b""
    ends = value.endswith(b"\n")
    lines = value[:-1].split(b"\n") if ends else value.split(b"\n") if value else []
    for line in lines:
        # A line counts as the first as long as nothing was written.
        indented = first if not made else (bool(line) or blank)
        made += (b"\n" if made else b"") + (indent if indented else b"") + line
    if ends:
        made += b"\n" + (indent if blank else b"")
    return made


def _title(value: bytes) -> bytes:
    return re.sub(rb"[^ \t\n\v\f\r]+", lambda m: m[0].capitalize(), value)


# --- arrays ---


def _test_named(name: Value, function: str) -> Builtin:
    test = TESTS.get(as_text(name).decode("latin-1"))
    if test is None:
        raise TemplateError(f"{function}: unknown test '{as_text(name).decode('latin-1')}'")
    return test


def _attribute(item: Value, attribute: Value) -> Value:
    if not isinstance(item, dict):
        raise TemplateError("selectattr: item is not an object")
    return item.get(checked_key(attribute), Undefined())


def _select(*, keep: bool) -> Builtin:
    def builtin(args: Args) -> Value:
        args.check_count(2, 4)
        args.check_types("array", "string")
        items, attribute = args.at(0), args.at(1)

        def chosen(item: Value) -> bool:
            if len(args) == 2:
                return truth(_attribute(item, attribute))
            if len(args) == 3:
                test = _test_named(attribute, "selectattr")
                return truth(test(Args(args.scope, [item, args.at(2)])))
            test = _test_named(args.at(2), "selectattr")
            return truth(test(Args(args.scope, [_attribute(item, attribute), args.at(3)])))

        return [item for item in items if chosen(item) is keep]

    return builtin


def _at_attribute(item: Value, attribute: Value) -> Value:
    """What `attribute` names in an item; the item itself if it holds no such things."""
    if is_integer(attribute) and isinstance(item, list | tuple):
        index = attribute + len(item) if attribute < 0 else attribute
        if not 0 <= index < len(item):
            raise TemplateError(f"Index {index} out of bounds for array of size {len(item)}")
        return item[index]
    if isinstance(attribute, bytes) and isinstance(item, dict):
        if attribute not in item:
            name = attribute.decode("latin-1")
            raise TemplateError(f"Key '{name}' not found in value of type Object")
        return item[attribute]
    return item


def _join(args: Args) -> Value:
    args.check_count(1, 3)
    items, separator = args.at(0), args.kwarg("d", 1)
    attribute = args.kwarg("attribute", 2)
    if not isinstance(items, list | tuple):
        raise TemplateError("join() first argument must be an array")
    if not (isinstance(attribute, Undefined | bytes) or is_integer(attribute)):
        raise TemplateError("join() attribute must be string or integer")
    texts = []
    for item in items:
        part = _at_attribute(item, attribute)
        if not isinstance(part, bytes) and not is_number(part):
            raise TemplateError("join() can only join arrays of strings or numerics")
        texts.append(as_text(part))
    return (b"" if isinstance(separator, Undefined) else as_text(separator)).join(texts)


def _map(args: Args) -> Value:
    args.check_count(2)
    items = args.at(0)
    if not isinstance(items, list | tuple):
        raise TemplateError("map: first argument must be an array")
    if not isinstance(args.at(1), Kwarg):
        raise NotImplementedInTemplate("map: filter-mapping not implemented")
    attribute, default = args.kwarg("attribute", 1), args.kwarg("default")
    if not isinstance(attribute, bytes) and not is_integer(attribute):
        raise TemplateError("map: attribute must be string or integer")

    def mapped(item: Value) -> Value:
        if is_integer(attribute):
            if not isinstance(item, list | tuple) or not -len(item) <= attribute < len(item):
                return default
            return item[attribute]
        return item.get(attribute, default) if isinstance(item, dict) else default

    made = [mapped(item) for item in items]
    return tuple(made) if isinstance(items, tuple) else made


def _append(args: Args) -> Value:
    args.check_count(2)
    items = args.at(0)
    if isinstance(items, tuple):
        raise TemplateError("Attempting to modify immutable type")
    if not isinstance(items, list):
        raise TemplateError("append: first argument must be an array")
    items.append(args.at(1))
    return items


def _pop(args: Args) -> Value:
    args.check_count(1, 2)
    args.check_types("array")
    items = args.at(0)
    index = as_int(args.at(1)) if len(args) == 2 else -1
    if isinstance(items, tuple):
        raise TemplateError("Attempting to modify immutable type")
    index = index + len(items) if index < 0 else index
    if not 0 <= index < len(items):
        raise TemplateError(f"Index {index} out of bounds for array of size {len(items)}")
    return items.pop(index)


def _sort(args: Args) -> Value:
    args.check_count(1, 4)
    items, reverse = args.at(0), truth(args.kwarg("reverse", 1))
    attribute = args.kwarg("attribute", 3)
    if not isinstance(items, list | tuple):
        raise TemplateError("sort: first argument must be an array")

    def key(item: Value, other: Value) -> tuple[Value, Value]:
        if isinstance(attribute, Undefined):
            return item, other
        wanted: tuple[type, ...] = (list, tuple) if is_integer(attribute) else (dict,)
        if not isinstance(item, wanted) or not isinstance(other, wanted):
            raise TemplateError(
                "sort: unsupported object attribute comparison between "
                f"{type_name(item)} and {type_name(other)}"
            )
        return _at_attribute(item, attribute), _at_attribute(other, attribute)

    made = _sorted(list(items), key, reverse)
    return tuple(made) if isinstance(items, tuple) else made


def _sorted(
    items: list[Value], key: Callable[[Value, Value], tuple[Value, Value]], reverse: bool
) -> list[Value]:
    op = "gt" if reverse else "lt"

    def order(one: Value, other: Value) -> int:
        a, b = key(one, other)
        return -1 if compare(a, b, op) else 1 if compare(b, a, op) else 0

    return sorted(items, key=functools.cmp_to_key(order))


def _extreme(name: str, op: str) -> Builtin:
    def builtin(args: Args) -> Value:
        args.check_count(1, 4)
        args.check_types("array")
        if not isinstance(args.kwarg("attribute", 2), Undefined):
            raise NotImplementedInTemplate(f"{name}: attribute not implemented")
        items = args.at(0)
        best: Value = items[0] if items else Undefined()
        for item in items[1:]:
            if compare(item, best, op):
                best = item
        return best

    return builtin


def _reversed(items: Value) -> Value:
    return items[::-1]


def _container_text(name: str) -> Builtin:
    def builtin(args: Args) -> Value:
        args.check_types(name)
        if args.scope.tracking:
            mark_used(args.at(0), deep=True)
        return as_text(args.at(0))

    return builtin


# --- objects ---


def _get(args: Args) -> Value:
    args.check_count(2, 3)
    if not isinstance(args.at(0), dict):
        raise TemplateError("get: first argument must be an object")
    if not isinstance(args.at(1), bytes):
        raise TemplateError("get: second argument must be a string (key)")
    return args.at(0).get(args.at(1), args.at(2) if len(args) == 3 else None)


def _dictsort(args: Args) -> Value:
    value, by = args.at(0), args.kwarg("by", 2)
    index = 1 if isinstance(by, bytes) and by == b"value" else 0
    pairs = _sorted(
        list(value.items()),
        lambda one, other: (one[index], other[index]),
        truth(args.kwarg("reverse", 3)),
    )
    return dict(pairs)


# --- the tables ---

_INT: dict[str, Builtin] = {
    "default": _default,
    "abs": _typed(abs, "int"),
    "int": _typed(int, "int"),
    "float": _typed(float, "int"),
    "safe": _tojson,
    "string": _tojson,
    "tojson": _tojson,
}
_FLOATS: dict[str, Builtin] = {
    "default": _default,
    "abs": _typed(abs, "float"),
    "int": _typed(as_int, "float"),
    "float": _typed(float, "float"),
    "safe": _tojson,
    "string": _tojson,
    "tojson": _tojson,
}
_TEXT: dict[str, Builtin] = {
    "default": _text_default,
    "upper": _typed(bytes.upper, "string"),
    "lower": _typed(bytes.lower, "string"),
    "strip": _strip("strip"),
    "rstrip": _strip("rstrip", left=False),
    "lstrip": _strip("lstrip", right=False),
    "title": _typed(_title, "string"),
    "capitalize": _typed(bytes.capitalize, "string"),
    "length": _typed(len, "string"),
    "startswith": _typed(bytes.startswith, "string", "string"),
    "endswith": _typed(bytes.endswith, "string", "string"),
    "split": _split,
    "rsplit": lambda args: _split(args, "rsplit"),
    "replace": _replace,
    "format": _format,
    "int": _to_int,
    "float": _to_float,
    "string": _typed(bytes, "string"),
    "slice": _slice,
    "safe": _typed(lambda value: value, "string"),
    "tojson": _tojson,
    "indent": _indent,
    "join": _missing("String join builtin not implemented"),
}
_BOOL: dict[str, Builtin] = {
    "default": _default,
    "int": _typed(int, "bool"),
    "float": _typed(float, "bool"),
    "safe": _typed(as_text, "bool"),
    "string": _typed(as_text, "bool"),
    "tojson": _tojson,
}
_ARRAY: dict[str, Builtin] = {
    "default": _default,
    "list": _typed(list, "array"),
    "first": _typed(lambda v: v[0] if v else Undefined(), "array"),
    "last": _typed(lambda v: v[-1] if v else Undefined(), "array"),
    "length": _typed(len, "array"),
    "slice": _slice,
    "selectattr": _select(keep=True),
    "select": _select(keep=True),
    "rejectattr": _select(keep=False),
    "reject": _select(keep=False),
    "join": _join,
    "string": _container_text("array"),
    "tojson": _tojson,
    "map": _map,
    "append": _append,
    "pop": _pop,
    "sort": _sort,
    "reverse": _typed(_reversed, "array"),
    "min": _extreme("min", "lt"),
    "max": _extreme("max", "gt"),
    "unique": _missing("Array unique builtin not implemented"),
}
_OBJECT: dict[str, Builtin] = {
    "get": _get,
    "keys": _typed(lambda v: list(v), "object"),
    "values": _typed(lambda v: list(v.values()), "object"),
    "items": _typed(lambda v: list(v.items()), "object"),
    "tojson": _tojson,
    "string": _container_text("object"),
    "length": _typed(len, "object"),
    "dictsort": _dictsort,
    "join": _missing("object join not implemented"),
}
_NONE: dict[str, Builtin] = {
    "default": _default,
    "tojson": _tojson,
    "string": _constant(lambda: b"None"),
    "safe": _constant(lambda: b"None"),
    **{
        name: _constant(list)
        for name in ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")
    },
}
_UNDEFINED: dict[str, Builtin] = {
    "default": _default,
    **{name: _constant(Undefined) for name in ("first", "last", "max", "min")},
    **{name: _constant(int) for name in ("length", "sum", "wordcount")},
    **{
        name: _constant(list)
        for name in (
            *("items", "list", "map", "reject", "rejectattr", "reverse"),
            *("select", "selectattr", "sort", "unique"),
        )
    },
    **{
        name: _constant(bytes)
        for name in (
            *("capitalize", "join", "lower", "replace", "safe", "string"),
            *("strip", "title", "truncate", "upper"),
        )
    },
}
_BUILTINS: dict[type, dict[str, Builtin]] = {
    bytes: _TEXT,
    TrackedText: _TEXT,
    bool: _BOOL,
    int: _INT,
    float: _FLOATS,
    list: _ARRAY,
    TrackedList: _ARRAY,
    tuple: _ARRAY,
    dict: _OBJECT,
    TrackedDict: _OBJECT,
    BareObject: {},
    type(None): _NONE,
    Undefined: _UNDEFINED,
}
