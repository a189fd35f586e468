"""Readers for the values of command-line options: C++'s number parsing and upstream's own forms."""

import math
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .jsontext import Json, ParseError, loads

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
TRUE_WORDS = frozenset({"on", "enabled", "true", "1"})
FALSE_WORDS = frozenset({"off", "disabled", "false", "0"})
AUTO_WORDS = frozenset({"auto", "-1"})

Warn = Callable[[str], None]
Reader = Callable[..., Any]
"""Called with a setting's present value (None until it is first given), the option's texts and
`warn`; returns the new value or raises InvalidValue."""


class InvalidValue(Exception):
    """A value that upstream refuses, with its text."""


def f32(value: float) -> float:
    """The nearest float32, as the Python float it is."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def boolean(text: str) -> bool:
    """The value of an environment variable for an option that can be on or off."""
    if text in TRUE_WORDS:
        return True
    if text in FALSE_WORDS:
        return False
    raise InvalidValue("invalid boolean value")


# --- readers, one for each type in spec/options.json ---


def int32(
    reject: tuple[int | None, int | None] = (None, None),
    reject_values: tuple[int, ...] = (),
    invalid: str = "invalid value",
) -> Reader:
    """An int32 by `std::stoi`: what follows the digits is ignored."""
    low, high = reject

    def reader(current: Any, text: str, *, warn: Warn) -> int:
        value = stoi(text)
        if (
            (low is not None and value < low)
            or (high is not None and value > high)
            or value in reject_values
        ):
            raise InvalidValue(invalid.replace("{value}", str(value)))
        return value

    return reader


def uint32() -> Reader:
    """A uint32 by `std::stoul`, of which the low 32 bits are kept: -1 is 4294967295."""

    def reader(current: Any, text: str, *, warn: Warn) -> int:
        return _integer(text, "stoul", -(1 << 64) + 1, (1 << 64) - 1) & 0xFFFFFFFF

    return reader


def float32(
    clamp: tuple[float | None, float | None] = (None, None),
    ignore_below: float | None = None,
    must_be: str | None = None,
    invalid: str = "invalid value",
    default: float = 0.0,
) -> Reader:
    """A float32 by `std::stof`."""
    low, high = clamp

    def reader(current: Any, text: str, *, warn: Warn) -> float:
        value = stof(text)
        if must_be is not None and not math.isfinite(value):
            raise InvalidValue(invalid)
        if must_be == "positive" and value <= 0.0:
            raise InvalidValue(invalid)
        if ignore_below is not None and not value >= ignore_below:
            return f32(default) if current is None else float(current)
        if low is not None:
            value = max(value, low)
        if high is not None:
            value = min(value, high)
        return value

    return reader


def int32_pair() -> Reader:
    """Two int32."""

    def reader(current: Any, first: str, second: str, *, warn: Warn) -> tuple[int, int]:
        return stoi(first), stoi(second)

    return reader


def layers() -> Reader:
    """A number of layers; `auto` is -1 and `all` is -2."""

    def reader(current: Any, text: str, *, warn: Warn) -> int:
        return {"auto": -1, "all": -2}[text] if text in ("auto", "all") else stoi(text)

    return reader


def string() -> Reader:
    """The text as it is."""

    def reader(current: Any, text: str, *, warn: Warn) -> str:
        return text

    return reader


def enum(*choices: str, invalid: str = "invalid value") -> Reader:
    """One of the choices."""

    def reader(current: Any, text: str, *, warn: Warn) -> str:
        if text not in choices:
            raise InvalidValue(invalid.replace("{value}", text))
        return text

    return reader


def on_off(invalid: str) -> Reader:
    """True or False."""

    def reader(current: Any, text: str, *, warn: Warn) -> bool:
        if text in TRUE_WORDS or text in FALSE_WORDS:
            return text in TRUE_WORDS
        raise InvalidValue(invalid.replace("{value}", text))

    return reader


def on_off_auto(invalid: str) -> Reader:
    """True, False, or None for auto."""

    def reader(current: Any, text: str, *, warn: Warn) -> bool | None:
        if text in AUTO_WORDS:
            return None
        if text in TRUE_WORDS or text in FALSE_WORDS:
            return text in TRUE_WORDS
        raise InvalidValue(invalid.replace("{value}", text))

    return reader


def folder(invalid: str) -> Reader:
    """The path of an existing folder, with a slash at its end."""

    def reader(current: Any, text: str, *, warn: Warn) -> str:
        if not Path(text).is_dir():
            raise InvalidValue(invalid.replace("{value}", text))
        return text if text.endswith("/") else f"{text}/"

    return reader


def text_file() -> Reader:
    """The content of the named file."""

    def reader(current: Any, text: str, *, warn: Warn) -> str:
        return _file(text)

    return reader


def lines_file() -> Reader:
    """The lines of the named file, without empty ones and comments; more options add more."""

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[str, ...]:
        lines = (line for line in _file(text).split("\n") if line and not line.startswith("#"))
        return (*(current or ()), *lines)

    return reader


def strings(split: str, choices: tuple[str, ...] = (), invalid: str = "invalid value") -> Reader:
    """A list, to which more options add; `split` as in spec/schema/options.schema.json."""
    splits: dict[str, Callable[[str], list[str]]] = {
        "none": lambda text: [text],
        "comma": lambda text: text.split(","),
        "comma_or_none": lambda text: text.split(","),
        "csv": lambda text: [item for item in csv(text) if item],
        "set": lambda text: [item for part in text.split(",") if (item := part.strip(_SPACE))],
    }

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[str, ...]:
        items = splits[split](text)
        for item in items:
            if choices and item not in choices:
                raise InvalidValue(invalid.replace("{value}", item))
            if split == "comma_or_none" and item == "none":
                items = ["none"]
                break
        joined = (*(current or ()), *items)
        return tuple(sorted(set(joined))) if split == "set" else joined

    return reader


def samplers(by_name: Mapping[str, str]) -> Reader:
    """Sampler names separated by `;`, in any of the spellings given; unknown ones are left out."""

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[str, ...]:
        names = []
        for item in text.split(";"):
            name = item.lower()
            if name in by_name:
                names.append(by_name[name])
            else:
                warn(f"common_sampler_types_from_names: unable to match sampler by name '{name}'")
        return tuple(names)

    return reader


def sampler_chars(by_letter: Mapping[str, str]) -> Reader:
    """A letter for each sampler; unknown ones are left out."""

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[str, ...]:
        names = []
        for letter in text:
            if letter in by_letter:
                names.append(by_letter[letter])
            else:
                warn(f"common_sampler_types_from_chars: unable to match sampler by char '{letter}'")
        return tuple(names)

    return reader


def dry_breakers() -> Reader:
    """One more sequence breaker; `none` takes away all so far."""

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[str, ...]:
        return () if text == "none" else (*(current or ()), text)

    return reader


def logit_bias() -> Reader:
    """One more (token, bias), from `15043+1` or `15043-1`."""

    def reader(current: Any, text: str, *, warn: Warn) -> tuple[tuple[int, float], ...]:
        match = re.match(rf"[{_SPACE}]*([+-]?[0-9]+)[{_SPACE}]*([+-])([^\n]+)", text)
        try:
            if match is None:
                raise InvalidValue
            bias = stof(match[3]) * (-1.0 if match[2] == "-" else 1.0)
            return (*(current or ()), (stoi(match[1]), bias))
        except InvalidValue:
            raise InvalidValue("invalid input format") from None

    return reader


def json_object() -> Reader:
    """A JSON object, merged into what was given so far."""

    def reader(current: Any, text: str, *, warn: Warn) -> dict[str, Json]:
        try:
            value = loads(text.encode("utf-8", "surrogateescape"))
        except ParseError as error:
            raise InvalidValue(error.message) from None
        if not isinstance(value, dict):
            raise InvalidValue("must be a JSON object")
        if "enable_thinking" in value:
            warn(
                "Setting 'enable_thinking' via --chat-template-kwargs is deprecated. "
                "Use --reasoning on / --reasoning off instead."
            )
        return {**(current or {}), **value}

    return reader


def removed(invalid: str) -> Reader:
    """Always refuses; a value that is no number is refused as such first, as upstream does."""

    def reader(current: Any, value: str, *, warn: Warn) -> None:
        stoi(value)
        raise InvalidValue(invalid)

    return reader


# --- C++ ---

_SPACE = " \t\n\v\f\r"
_FLOAT = re.compile(
    rf"[{_SPACE}]*([+-]?)(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_FLT_MIN = 2.0**-126


def stoi(text: str) -> int:
    """`std::stoi`; raises InvalidValue with its text."""
    return _integer(text, "stoi", INT32_MIN, INT32_MAX)


def stof(text: str) -> float:
    """`std::stof`; raises InvalidValue with its text, also for what float32 can't hold."""
    match = _FLOAT.match(text)
    if match is None:
        raise InvalidValue("stof")
    digits = match[2].lower()
    try:
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
        rounded = f32(value)
    except OverflowError:
        raise InvalidValue("stof") from None
    if math.isinf(rounded) and not digits.startswith("inf"):
        raise InvalidValue("stof")
    nonzero = re.search("[1-9a-f]", re.split("[ep]" if "x" not in digits else "p", digits)[0])
    if nonzero and rounded < _FLT_MIN and rounded != value:
        raise InvalidValue("stof")
    return -rounded if match[1] == "-" else rounded


def csv(text: str) -> list[str]:
    """Fields of one CSV row; `\"` opens a field only at its beginning, and `\"\"` is one `\"`."""
    fields, item, quoted, i = [], "", False, 0
    while i < len(text):
        letter = text[i]
        if letter == '"' and quoted and text[i + 1 : i + 2] == '"':
            item += '"'
            i += 1
        elif letter == '"' and (quoted or not item):
            quoted = not quoted
        elif letter == "," and not quoted:
            fields.append(item)
            item = ""
        else:
            item += letter
        i += 1
    return [*fields, item]


def unescape(text: str) -> str:
    r"""`\n`, `\r`, `\t`, `\'`, `\"`, `\\` and `\x41` replaced, as `string_process_escapes` does."""
    raw = re.sub(
        rb"\\(?:([nrt'\"\\])|x([0-9a-fA-F]{2}))",
        lambda m: _ESCAPES[m[1]] if m[1] else bytes([int(m[2], 16)]),
        text.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"'": b"'", b'"': b'"', b"\\": b"\\"}


def _integer(text: str, function: str, low: int, high: int) -> int:
    match = re.match(rf"[{_SPACE}]*([+-]?)0*([0-9]+)", text)
    if match is None or len(match[2]) > 20:
        raise InvalidValue(function)
    value = int(match[1] + match[2])
    if not low <= value <= high:
        raise InvalidValue(function)
    return value


def _file(name: str) -> str:
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError):
        raise InvalidValue(f"error: failed to open file '{name}'\n") from None
    return data.decode("utf-8", "surrogateescape")
