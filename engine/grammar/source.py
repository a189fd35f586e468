"""The text of a grammar and the small things it is made of: names, characters, numbers, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.grammar.rules import GrammarError

if TYPE_CHECKING:
    from engine.sampling.vocab import Vocab

_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789")
_HEX = b"0123456789abcdefABCDEF"
_ESCAPED = {b"t": 0x09, b"r": 0x0D, b"n": 0x0A, b"\\": 0x5C, b'"': 0x22, b"[": 0x5B, b"]": 0x5D,
            b"-": 0x2D}  # fmt: skip
_HEX_DIGITS = {b"x": 2, b"u": 4, b"U": 8}


class Source:
    """A position in UTF-8 text; the text ends at its first NUL, as a C string does."""

    def __init__(self, text: bytes, vocab: Vocab | None) -> None:
        self._text = text.split(b"\0")[0]
        self._at = 0
        self._vocab = vocab

    def peek(self, ahead: int = 0) -> bytes:
        """The byte `ahead`, empty behind the end."""
        return self._text[self._at + ahead : self._at + ahead + 1]

    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def at_word(self) -> bool:
        """Whether a name begins here."""
        return not self.at_end() and self._text[self._at] in _WORD

    def take(self, wanted: bytes) -> bool:
        """Step over `wanted` if it stands here."""
        if not self._text.startswith(wanted, self._at):
            return False
        self._at += len(wanted)
        return True

    def error(self, what: str, at: int | None = None) -> GrammarError:
        """An error that shows the text from here on, as the reference's do."""
        rest = self._text[self._at if at is None else at :]
        return GrammarError(what + rest.decode(errors="replace"))

    def skip_space(self, *, newlines: bool) -> None:
        """Step over blanks, tabs and comments."""
        blanks = b" \t\r\n" if newlines else b" \t"
        while True:
            while self.peek() and self.peek() in blanks:
                self._at += 1
            if self.peek() != b"#":
                return
            while self.peek() not in (b"", b"\r", b"\n"):
                self._at += 1

    def name(self) -> str:
        """The name that begins here."""
        start = self._at
        while self.at_word():
            self._at += 1
        if self._at == start:
            raise self.error("expecting name at ")
        return self._text[start : self._at].decode()

    def integer(self, read_by: str) -> int:
        """The decimal number that begins here; `read_by` is what the reference calls a huge one."""
        start = self._at
        while self.peek().isdigit():
            self._at += 1
        if self._at == start:
            raise self.error("expecting integer at ")
        digits = self._text[start : self._at].lstrip(b"0")
        if len(digits) > 20 or int(digits or b"0") >= 2**64:
            raise GrammarError(read_by)
        return int(digits or b"0")

    def literal(self) -> list[int]:
        """Code points up to the closing quote, whose opening one was taken."""
        points = []
        while not self.take(b'"'):
            points.append(self.character())
        return points

    def character(self) -> int:
        """The code point of one character or escape."""
        if self.at_end():
            raise GrammarError("unexpected end of input")
        if self.peek() != b"\\":
            return self._utf8()
        escape = self.peek(1)
        if escape in _HEX_DIGITS:
            self._at += 2
            return self._hex(_HEX_DIGITS[escape])
        if escape not in _ESCAPED:
            raise self.error("unknown escape at ")
        self._at += 2
        return _ESCAPED[escape]

    def token(self) -> int:
        """The id of a token, written `<[id]>` or `<name>`."""
        start = self._at
        if not self.take(b"<"):
            raise self.error("expecting '<' at ")
        if self.take(b"["):
            number = self.integer("stoul")
            for closing in ("]", ">"):
                if not self.take(closing.encode()):
                    raise self.error(f"expecting '{closing}' at ")
            return number & 0xFFFFFFFF
        if self._vocab is None:
            raise self.error("no vocab to parse token at ", start)
        end = self._text.find(b">", self._at)
        if end < 0:
            raise GrammarError("expecting '>' at ")
        self._at = end + 1
        name = self._text[start : self._at].decode(errors="surrogateescape")
        tokens = self._vocab.encode(name, add_special=False, parse_special=True)
        if len(tokens) != 1:
            raise GrammarError(f"invalid token '{name}'")
        return tokens[0]

    def _hex(self, count: int) -> int:
        digits = self._text[self._at : self._at + count]
        if len(digits) < count or any(digit not in _HEX for digit in digits):
            raise self.error(f"expecting {count} hex chars at ")
        self._at += count
        return int(digits, 16)

    def _utf8(self) -> int:
        """A code point as the reference decodes it, which believes the first byte."""
        first = self._text[self._at]
        length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        point = first & ((1 << (8 - length)) - 1)
        for byte in self._text[self._at + 1 : self._at + length]:
            point = (point << 6) + (byte & 0x3F)
        self._at = min(self._at + length, len(self._text))
        return point
