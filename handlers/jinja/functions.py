"""The functions that templates may call."""

import re
import time

from handlers.jinja.arguments import Args, Builtin
from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.tests import TESTS
from handlers.jinja.values import (
    Kwarg,
    Value,
    as_int,
    as_text,
    is_integer,
    mark_used,
    to_json,
    truth,
)


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


def tojson(args: Args) -> Value:
    """`tojson`: Python's spacing, nothing escaped that JSON doesn't ask for."""
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


FUNCTIONS: dict[str, Builtin] = {
    "raise_exception": _raise_exception,
    "namespace": _namespace,
    "strftime_now": _strftime_now,
    "range": _range,
    "tojson": tojson,
    **{f"test_is_{name}": test for name, test in TESTS.items()},
}
