"""The tests of templates: what stands after `is`."""

from collections.abc import Callable

from handlers.jinja.arguments import IS_TYPE, Args, Builtin
from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.values import (
    Function,
    Undefined,
    Value,
    checked_key,
    compare,
    equal,
    type_name,
)


def _type_test(*names: str, undefined: bool = False) -> Builtin:
    checks = [IS_TYPE[name] for name in names]

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
