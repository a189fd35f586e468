"""JSON text as llama-server reads and writes it: nlohmann::json's values, errors and spelling."""
# Copied by `python -m codegen gen` from codegen/runtime/jsontext.py; edit that.

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import TypeAlias

import orjson

from .doubles import double_text

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class JsonError(ValueError):
    """What upstream throws as `common_json_error`; uncaught, it is answered as a server error."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ParseError(JsonError):
    """A body that is no JSON, with nlohmann::json's text."""


def loads(body: bytes) -> Json:
    """The value of `body` by `nlohmann::json::parse`; raises ParseError with its text.

    Integers keep their value within int64 and uint64 and are floats beyond; a repeated key
    keeps its first place and its last value; a byte order mark is skipped, and whatever
    follows a NUL byte after the value.
    """
    try:
        value: Json = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _Parser(body).parse()
    return value


def dumps(value: object) -> str:
    """Compact text of `value` as llama-server writes it (`dump` with `replace`).

    Takes None, bool, int, float, str, bytes, lists, tuples and dicts with str keys. Bytes, and
    bytes that `surrogateescape` put into a str, are read as UTF-8; what is malformed becomes
    U+FFFD. Raises TypeError for anything else.
    """
    try:
        if _same_in_orjson(value):
            return orjson.dumps(value).decode()
    except (TypeError, RecursionError):
        pass  # What orjson can't write: lone surrogates, large integers, deep nesting.
    parts: list[str] = []
    try:
        _write(value, parts.append)
    except RecursionError:
        parts = []
        _write_deep(value, parts.append)
    return "".join(parts)


# --- writing ---

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_A_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


_PLAIN = frozenset({str, int, bool, type(None)})


def _same_in_orjson(value: object) -> bool:
    """Whether orjson, many times faster, writes the same: it does all but floats and bytes."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is dict:
        value = value.values()  # type: ignore[attr-defined]
    elif kind is not list and kind is not tuple:
        return False
    for item in value:  # type: ignore[attr-defined]  # noqa: SIM110 (half as fast)
        if type(item) not in _PLAIN and not _same_in_orjson(item):
            return False
    return True


def _write(value: object, put: Callable[[str], None]) -> None:
    kind = type(value)
    if kind is str:
        put(_quoted(value))  # type: ignore[arg-type]
    elif kind is dict:
        separator = "{"
        for key, item in value.items():  # type: ignore[attr-defined]
            put(f"{separator}{_quoted(key)}:")
            _write(item, put)
            separator = ","
        put("}" if separator == "," else "{}")
    elif kind is list or kind is tuple:
        separator = "["
        for item in value:  # type: ignore[attr-defined]
            put(separator)
            _write(item, put)
            separator = ","
        put("]" if separator == "," else "[]")
    else:
        put(_scalar(value))


def _write_deep(value: object, put: Callable[[str], None]) -> None:
    """`_write` with a stack of its own, for values nested beyond Python's recursion limit."""
    pending: list[object | _Raw] = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, _Raw):
            put(value.text)
        elif isinstance(value, dict):
            opened: list[object | _Raw] = [_Raw("{")]
            for key, item in value.items():
                comma = "," if len(opened) > 1 else ""
                opened += [_Raw(f"{comma}{_quoted(key)}:"), item]
            pending += reversed([*opened, _Raw("}")])
        elif isinstance(value, list | tuple):
            opened = [_Raw("[")]
            for item in value:
                opened += [_Raw(","), item] if len(opened) > 1 else [item]
            pending += reversed([*opened, _Raw("]")])
        else:
            put(_scalar(value))


class _Raw:
    """Finished text among the values still to be written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, str):
        return _quoted(str(value))
    if isinstance(value, bytes):
        return encode_basestring(value.decode("utf-8", "replace"))
    parts: list[str] = []
    if isinstance(value, dict):
        _write(dict(value), parts.append)
    elif isinstance(value, list | tuple):
        _write(list(value), parts.append)
    else:
        raise TypeError(f"{type(value).__name__} has no JSON text")
    return "".join(parts)


def _quoted(text: str) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        text = _NOT_A_BYTE.sub("\ufffd", text)
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return encode_basestring(text)


# --- reading, where a fast library would not do ---

_SPACE = re.compile(rb"[ \t\n\r]*+")
_NUMBER = re.compile(rb"(-?(?:0|[1-9][0-9]*+))(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_STRING = re.compile(
    rb"(?:[\x20!#-\[\]-\x7f]"
    rb"|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
    rb'|\\["\\/bfnrt]'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*+"
)
# First byte of a multi-byte character: the range its second byte is in, and how many follow.
_UTF8 = (
    (0xC2, 0xDF, 0x80, 0xBF, 1),
    (0xE0, 0xE0, 0xA0, 0xBF, 2),
    (0xE1, 0xEC, 0x80, 0xBF, 2),
    (0xED, 0xED, 0x80, 0x9F, 2),
    (0xEE, 0xEF, 0x80, 0xBF, 2),
    (0xF0, 0xF0, 0x90, 0xBF, 3),
    (0xF1, 0xF3, 0x80, 0xBF, 3),
    (0xF4, 0xF4, 0x80, 0x8F, 3),
)
_CONTROL_NAMES = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF"),
    *("CR", "SO", "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM"),
    *("SUB", "ESC", "FS", "GS", "RS", "US"),
)
_SHORT_ESCAPES = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r"}
_HEX = frozenset(b"0123456789abcdefABCDEF")
_SIGNS = frozenset(b"+-")
_INFINITIES = (float("inf"), float("-inf"))

_STRING_TOKEN, _NUMBER_TOKEN, _ERROR_TOKEN = "string literal", "number literal", "<parse error>"
_END = "end of input"
_LITERALS: dict[int, tuple[bytes, str, Json]] = {
    ord("t"): (b"true", "true literal", True),
    ord("f"): (b"false", "false literal", False),
    ord("n"): (b"null", "null literal", None),
}
_OPENERS: dict[str, Callable[[], Json]] = {"'{'": dict, "'['": list}
_VALUE_TOKENS = {_STRING_TOKEN, _NUMBER_TOKEN, *(name for _, name, _ in _LITERALS.values())}


class _Fault(Exception):
    """What is wrong within a token."""


class _Parser:
    """One pass over a body, keeping what nlohmann's error texts speak of.

    `pos` counts the bytes taken, `shown` is where the "last read" text starts (at the body's
    start until a string or number restarts it), `ended` says the end of the body was met.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.shown = 0
        self.ended = False
        self.token = ""
        self.value: Json = None
        self.fault = ""
        self.unread_newline = False

    def parse(self) -> Json:
        self.next()
        root: list[Json] = []
        stack: list[list[Json] | dict[str, Json]] = [root]
        key = ""
        while True:
            value: Json
            if self.token in _OPENERS:
                value = _OPENERS[self.token]()
            elif self.token in _VALUE_TOKENS:
                value = self.value
            else:
                raise self.unexpected_value()
            if isinstance(value, float) and value in _INFINITIES:
                raise self.overflow()
            holder = stack[-1]
            if isinstance(holder, dict):
                holder[key] = value
            else:
                holder.append(value)
            if isinstance(value, dict | list):
                self.next()
                if self.token != ("'}'" if isinstance(value, dict) else "']'"):
                    stack.append(value)
                    if isinstance(value, dict):
                        key = self.key()
                    continue
            while len(stack) > 1:
                holder = stack[-1]
                self.next()
                if self.token == "','":
                    self.next()
                    if isinstance(holder, dict):
                        key = self.key()
                    break
                if isinstance(holder, dict):
                    if self.token != "'}'":
                        raise self.error("object", "'}'")
                elif self.token != "']'":
                    raise self.error("array", "']'")
                stack.pop()
            else:
                self.next()
                if self.token != _END:
                    raise self.error("value", _END)
                return root[0]

    def key(self) -> str:
        """The key the current token is, with the colon and the value's first token taken."""
        if self.token != _STRING_TOKEN:
            raise self.error("object key", _STRING_TOKEN)
        key = str(self.value)
        self.next()
        if self.token != "':'":
            raise self.error("object separator", "':'")
        self.next()
        return key

    # --- errors ---

    def unexpected_value(self) -> ParseError:
        if self.token == _ERROR_TOKEN:
            return self.error("value", "")
        if self.token == _END and self.pos + self.ended == 1:
            return self.located(
                "attempting to parse an empty input; check that your input string or stream "
                "contains the expected JSON"
            )
        return self.error("value", "'[', '{', or a literal")

    def overflow(self) -> ParseError:
        return ParseError(
            f"[json.exception.out_of_range.406] number overflow parsing '{self.last_read()}'"
        )

    def error(self, context: str, expected: str) -> ParseError:
        if self.token == _ERROR_TOKEN:
            found = f"{self.fault}; last read: '{self.last_read()}'"
        else:
            found = f"unexpected {self.token}"
        wanted = f"; expected {expected}" if expected else ""
        return self.located(f"syntax error while parsing {context} - {found}{wanted}")

    def located(self, what: str) -> ParseError:
        line = self.data.count(b"\n", 0, self.pos) + 1
        column = self.pos - (self.data.rfind(b"\n", 0, self.pos) + 1) + self.ended
        if self.unread_newline:
            column = 0  # upstream forgets the column when it puts a newline back
        return ParseError(
            f"[json.exception.parse_error.101] parse error at line {line}, column {column}: {what}"
        )

    def last_read(self) -> str:
        text = self.data[self.shown : self.pos].decode("utf-8", "replace")
        return re.sub("[\x00-\x1f]", lambda match: f"<U+{ord(match[0]):04X}>", text)

    # --- tokens ---

    def next(self) -> None:
        """Take the next token: its name to `token`, its value to `value`."""
        self.unread_newline = False
        try:
            self.token = self.scan()
        except _Fault as fault:
            self.token, self.fault = _ERROR_TOKEN, str(fault)

    def take(self) -> int:
        """The next byte, or -1 at the end of the body."""
        if self.pos == len(self.data):
            self.ended = True
            return -1
        self.pos += 1
        return self.data[self.pos - 1]

    def scan(self) -> str:
        if self.pos == 0 and self.data[:1] == b"\xef":
            self.take()
            if self.take() != 0xBB or self.take() != 0xBF:
                raise _Fault("invalid BOM; must be 0xEF 0xBB 0xBF if given")
        self.pos = self.end(_SPACE)
        first = self.take()
        if first in (-1, 0):
            return _END
        if first in b"[]{}:,":
            return f"'{chr(first)}'"
        if first in _LITERALS:
            text, name, self.value = _LITERALS[first]
            for expected in text[1:]:
                if self.take() != expected:
                    raise _Fault("invalid literal")
            return name
        if first == ord('"'):
            self.shown = self.pos - 1
            return self.scan_string()
        if first in b"-0123456789":
            self.pos -= 1
            self.shown = self.pos
            return self.scan_number()
        raise _Fault("invalid literal")

    def end(self, pattern: re.Pattern[bytes]) -> int:
        match = pattern.match(self.data, self.pos)
        return match.end() if match else self.pos

    def scan_string(self) -> str:
        self.pos = self.end(_STRING)
        byte = self.take()
        if byte != ord('"'):
            raise _Fault(f"invalid string: {self.string_fault(byte)}")
        raw = self.data[self.shown : self.pos]
        self.value = json.loads(raw) if b"\\" in raw else raw[1:-1].decode()
        return _STRING_TOKEN

    def string_fault(self, byte: int) -> str:
        """What is wrong with the character that starts with `byte`; takes it that far."""
        if byte == -1:
            return "missing closing quote"
        if byte < 0x20:
            short = f" or {_SHORT_ESCAPES[byte]}" if byte in _SHORT_ESCAPES else ""
            named = f"U+{byte:04X} ({_CONTROL_NAMES[byte]})"
            return f"control character {named} must be escaped to \\u{byte:04X}{short}"
        if byte != ord("\\"):
            for first, last, low, high, count in _UTF8:
                if first <= byte <= last and low <= self.take() <= high:
                    while count > 1 and 0x80 <= self.take() <= 0xBF:
                        count -= 1
            return "ill-formed UTF-8 byte"
        if self.take() != ord("u"):
            return "forbidden character after backslash"
        unit = self.hex4()
        if unit is None:
            return "'\\u' must be followed by 4 hex digits"
        if unit >= 0xDC00:
            return "surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF"
        if self.take() == ord("\\") and self.take() == ord("u") and self.hex4() is None:
            return "'\\u' must be followed by 4 hex digits"
        return "surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF"

    def hex4(self) -> int | None:
        start = self.pos
        for _ in range(4):
            if self.take() not in _HEX:
                return None
        return int(self.data[start : self.pos], 16)

    def scan_number(self) -> str:
        match = _NUMBER.match(self.data, self.pos)
        if match is None:
            self.pos += 1
            self.take()
            raise _Fault("invalid number; expected digit after '-'")
        self.pos = match.end()
        whole, decimals, power = match.groups()
        following = self.data[self.pos : self.pos + 1]
        if following == b"." and not decimals and not power:
            self.pos += 1
            self.take()
            raise _Fault("invalid number; expected digit after '.'")
        if following in (b"e", b"E") and not power:
            self.pos += 1
            if self.take() in _SIGNS:
                self.take()
                raise _Fault("invalid number; expected digit after exponent sign")
            raise _Fault("invalid number; expected '+', '-', or digit after exponent")
        self.unread_newline = following == b"\n"
        self.value = float(match[0])
        if not decimals and not power and len(whole) <= 20:
            integer = int(whole)
            if -(1 << 63) <= integer < 1 << 64:
                self.value = integer
        return _NUMBER_TOKEN
