"""The builtins of every type: filters and methods, which are the same thing.

A builtin is called with the value it belongs to as its first argument.
"""

from handlers.jinja.arguments import Builtin, constant, default, typed
from handlers.jinja.containers import ARRAY, OBJECT
from handlers.jinja.errors import TemplateError
from handlers.jinja.functions import tojson
from handlers.jinja.texts import TEXT
from handlers.jinja.values import (
    BareObject,
    TrackedDict,
    TrackedList,
    TrackedText,
    Undefined,
    Value,
    as_int,
    as_text,
    type_name,
)


def builtins_of(value: Value) -> dict[str, Builtin]:
    """The builtins of a value's type."""
    found = _BUILTINS.get(type(value))
    if found is None:
        raise TemplateError(f"{type_name(value)} has no builtins")
    return found


_INT: dict[str, Builtin] = {
    "default": default,
    "abs": typed(abs, "int"),
    "int": typed(int, "int"),
    "float": typed(float, "int"),
    "safe": tojson,
    "string": tojson,
    "tojson": tojson,
}
_FLOATS: dict[str, Builtin] = {
    "default": default,
    "abs": typed(abs, "float"),
    "int": typed(as_int, "float"),
    "float": typed(float, "float"),
    "safe": tojson,
    "string": tojson,
    "tojson": tojson,
}
_BOOL: dict[str, Builtin] = {
    "default": default,
    "int": typed(int, "bool"),
    "float": typed(float, "bool"),
    "safe": typed(as_text, "bool"),
    "string": typed(as_text, "bool"),
    "tojson": tojson,
}
_NONE: dict[str, Builtin] = {
    "default": default,
    "tojson": tojson,
    "string": constant(lambda: b"None"),
    "safe": constant(lambda: b"None"),
    **{
        name: constant(list)
        for name in ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")
    },
}
_UNDEFINED: dict[str, Builtin] = {
    "default": default,
    **{name: constant(Undefined) for name in ("first", "last", "max", "min")},
    **{name: constant(int) for name in ("length", "sum", "wordcount")},
    **{
        name: constant(list)
        for name in (
            *("items", "list", "map", "reject", "rejectattr", "reverse"),
            *("select", "selectattr", "sort", "unique"),
        )
    },
    **{
        name: constant(bytes)
        for name in (
            *("capitalize", "join", "lower", "replace", "safe", "string"),
            *("strip", "title", "truncate", "upper"),
        )
    },
}
_BUILTINS: dict[type, dict[str, Builtin]] = {
    bytes: TEXT,
    TrackedText: TEXT,
    bool: _BOOL,
    int: _INT,
    float: _FLOATS,
    list: ARRAY,
    TrackedList: ARRAY,
    tuple: ARRAY,
    dict: OBJECT,
    TrackedDict: OBJECT,
    BareObject: {},
    type(None): _NONE,
    Undefined: _UNDEFINED,
}
