"""Reading bytes as text the way llama.cpp does, errors included."""

from __future__ import annotations

#: Bytes of a character, by the upper half of its first byte.
_LENGTHS = (1,) * 12 + (2, 2, 3, 4)


def decode(text: str | bytes) -> str:
    """Text with every undecodable byte as a surrogate escape; lone surrogates become bytes."""
    if isinstance(text, str):
        if is_valid(text):
            return text
        text = text.encode("utf-8", "surrogatepass")
    return text.decode("utf-8", "surrogateescape")


def is_valid(text: str) -> bool:
    """Whether a text has no surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lenient(text: str) -> str:
    """`decode`d text as code points: undecodable bytes are U+FFFD, overlong forms are read."""
    if is_valid(text):
        return text
    return "".join(_code_points(text.encode("utf-8", "surrogateescape")))


def characters(text: str) -> list[str]:
    """`decode`d text cut where first bytes say, whatever follows them (`unicode_len_utf8`)."""
    if is_valid(text):
        return list(text)
    raw = text.encode("utf-8", "surrogateescape")
    out = []
    at = 0
    while at < len(raw):
        size = char_len(raw[at])
        out.append(raw[at : at + size].decode("utf-8", "surrogateescape"))
        at += size
    return out


def char_len(first: int) -> int:
    """How many bytes a character takes by its first byte alone."""
    return _LENGTHS[first >> 4]


def code_point(raw: bytes, at: int) -> tuple[int, int] | None:
    """The code point at an offset and its size in bytes; None where no character begins."""
    first = raw[at]
    if first < 0x80:
        return first, 1
    if first < 0xC0 or first >= 0xF8:
        return None
    size = char_len(first)
    rest = raw[at + 1 : at + size]
    if len(rest) < size - 1 or any(byte & 0xC0 != 0x80 for byte in rest):
        return None
    code = first & (0x7F >> size)
    for byte in rest:
        code = code << 6 | byte & 0x3F
    return code, size


def _code_points(raw: bytes) -> list[str]:
    out = []
    at = 0
    while at < len(raw):
        found = code_point(raw, at)
        code, size = found or (0xFFFD, 1)
        out.append(chr(code) if code <= 0x10FFFF else "\ufffd")
        at += size
    return out
