"""The builtins of texts. Only ASCII letters have an upper and a lower case."""

import re

from handlers.jinja.arguments import Args, Builtin, missing, typed
from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.functions import tojson
from handlers.jinja.slices import slice
from handlers.jinja.values import (
    Undefined,
    Value,
    as_float,
    as_int,
    as_text,
    is_integer,
    truth,
)


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


TEXT: dict[str, Builtin] = {
    "default": _text_default,
    "upper": typed(bytes.upper, "string"),
    "lower": typed(bytes.lower, "string"),
    "strip": _strip("strip"),
    "rstrip": _strip("rstrip", left=False),
    "lstrip": _strip("lstrip", right=False),
    "title": typed(_title, "string"),
    "capitalize": typed(bytes.capitalize, "string"),
    "length": typed(len, "string"),
    "startswith": typed(bytes.startswith, "string", "string"),
    "endswith": typed(bytes.endswith, "string", "string"),
    "split": _split,
    "rsplit": lambda args: _split(args, "rsplit"),
    "replace": _replace,
    "format": _format,
    "int": _to_int,
    "float": _to_float,
    "string": typed(bytes, "string"),
    "slice": slice,
    "safe": typed(lambda value: value, "string"),
    "tojson": tojson,
    "indent": _indent,
    "join": missing("String join builtin not implemented"),
}
