"""Shows on a terminal how far something is; says nothing elsewhere."""

import sys
import time
from types import TracebackType
from typing import TextIO

_WIDTH = 30
_CLEAR = "\r\x1b[K"


class ProgressBar:
    """A bar on standard error, drawn anew when it has grown; gone when it is full."""

    def __init__(self, title: str, stream: TextIO = sys.stderr) -> None:
        """Nothing is drawn unless `stream` is a terminal."""
        self.title = title
        self.stream = stream
        self._on_terminal = stream.isatty()
        self._percent = -1
        self._started = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        self.update(0.0)
        return self

    def update(self, part: float) -> None:
        """Show that `part` of 1 is done; may be called from any thread."""
        percent = round(100 * part)
        if not self._on_terminal or percent <= self._percent:
            return
        self._percent = percent
        if percent >= 100:
            self._write(_CLEAR)
            return
        done = _WIDTH * percent // 100
        bar = "█" * done + "·" * (_WIDTH - done)
        seconds = time.monotonic() - self._started
        self._write(f"\r{self.title} {bar} {percent:3}% {seconds:4.1f} s")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on_terminal and self._percent < 100:
            self._write(_CLEAR)
