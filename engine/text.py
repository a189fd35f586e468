"""Turns predicted pieces into text to show: whole characters, nothing of a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass


def cut_off_at(text: bytes | bytearray) -> int:
    """Where a character begins whose last bytes are missing; else the text's length."""
    length = len(text)
    for back in range(1, min(3, length) + 1):
        if back < _character_length(text[length - back]):
            return length - back
    return length


def _character_length(lead: int) -> int:
    """How many bytes a UTF-8 character has by its first one; 1 for what is no such lead."""
    if lead & 0xE0 == 0xC0:
        return 2
    if lead & 0xF0 == 0xE0:
        return 3
    return 4 if lead & 0xF8 == 0xF0 else 1


def partial_stop_at(text: bytes, word: bytes) -> int:
    """Where the longest beginning of `word` stands that `text` ends with; -1 if there is none."""
    for length in range(min(len(text), len(word)), 0, -1):
        if text.endswith(word[:length]):
            return len(text) - length
    return -1


def to_text(text: bytes | bytearray) -> str:
    """Decode UTF-8; a byte that belongs to no character reads as U+FFFD."""
    return text.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Shown:
    """What one token did to the text."""

    text: bytes
    """New text to show; the whole piece, not to be shown, while a character is cut off."""
    complete: bool
    """Whether the text ends with a whole character; nothing is shown otherwise."""
    stopped_by: str | None
    """The stop string that was completed."""


class TextStream:
    """The text one task has generated, and how much of it was shown.

    The rules are llama-server's: text that may be the start of a stop string is held back
    until the next tokens decide, and so is everything after a cut-off character.
    """

    def __init__(self, stop: Sequence[str], n_indent: int) -> None:
        """`n_indent` is the least indentation of lines after the first, in bytes; 0 for none."""
        self.generated = bytearray()
        self.has_new_line = False
        # An empty stop string, as in the reference, ends the text with the first token.
        self._stop = [(word, word.encode(errors="surrogatepass")) for word in stop]
        self._n_indent = n_indent
        self._n_shown = 0
        self._line_start = 0

    def add(self, piece: bytes, *, last: bool) -> Shown:
        """Take the next token's bytes; with `last`, which ends the text, nothing is held back."""
        self.generated += piece
        if cut_off_at(self.generated) < len(self.generated):
            return Shown(piece, complete=False, stopped_by=None)
        waiting = bytes(self.generated[self._n_shown :])
        at, word = self._find_stop(waiting)
        if word is not None:
            del self.generated[self._n_shown + at :]
            waiting = waiting[:at]
        elif not last and any(partial_stop_at(waiting, word) >= 0 for _, word in self._stop):
            return Shown(b"", complete=True, stopped_by=None)
        self._n_shown += len(waiting)
        return Shown(waiting, complete=True, stopped_by=word)

    def breaks_indentation(self) -> bool:
        """Whether the newest line is indented less than asked for; that line is then cut off.

        Call once after every token that follows a shown new line.
        """
        if self._n_indent <= 0:
            return False
        broken = False
        if self._line_start > 0:
            at = self._line_start
            while at < len(self.generated) and self.generated[at] in b" \t":
                at += 1
            broken = at < len(self.generated) and at - self._line_start < self._n_indent
            if broken:
                del self.generated[at:]
        new_line = self.generated.find(b"\n", self._line_start)
        if new_line >= 0:
            self._line_start = new_line + 1
        return broken

    def whole(self) -> str:
        """All the text; a character that is cut off at its end reads as U+FFFD."""
        return to_text(self.generated)

    def held_back(self) -> str:
        """The end of `whole()` that was never shown."""
        return to_text(self.generated[self._n_shown :])

    def _find_stop(self, text: bytes) -> tuple[int, str | None]:
        """The earliest place where a stop string stands, and which: the first listed there."""
        found: tuple[int, str | None] = (-1, None)
        for word, encoded in self._stop:
            at = text.find(encoded)
            if at >= 0 and (found[1] is None or at < found[0]):
                found = (at, word)
        return found
