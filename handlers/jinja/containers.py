"""The builtins of arrays and objects."""

import functools
from collections.abc import Callable

from handlers.jinja.arguments import Args, Builtin, default, missing, typed
from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.functions import tojson
from handlers.jinja.slices import slice
from handlers.jinja.tests import TESTS
from handlers.jinja.values import (
    Kwarg,
    Undefined,
    Value,
    as_int,
    as_text,
    checked_key,
    compare,
    is_integer,
    is_number,
    mark_used,
    truth,
    type_name,
)


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


ARRAY: dict[str, Builtin] = {
    "default": default,
    "list": typed(list, "array"),
    "first": typed(lambda v: v[0] if v else Undefined(), "array"),
    "last": typed(lambda v: v[-1] if v else Undefined(), "array"),
    "length": typed(len, "array"),
    "slice": slice,
    "selectattr": _select(keep=True),
    "select": _select(keep=True),
    "rejectattr": _select(keep=False),
    "reject": _select(keep=False),
    "join": _join,
    "string": _container_text("array"),
    "tojson": tojson,
    "map": _map,
    "append": _append,
    "pop": _pop,
    "sort": _sort,
    "reverse": typed(_reversed, "array"),
    "min": _extreme("min", "lt"),
    "max": _extreme("max", "gt"),
    "unique": missing("Array unique builtin not implemented"),
}
OBJECT: dict[str, Builtin] = {
    "get": _get,
    "keys": typed(lambda v: list(v), "object"),
    "values": typed(lambda v: list(v.values()), "object"),
    "items": typed(lambda v: list(v.items()), "object"),
    "tojson": tojson,
    "string": _container_text("object"),
    "length": typed(len, "object"),
    "dictsort": _dictsort,
    "join": missing("object join not implemented"),
}
