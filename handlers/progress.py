"""Shows how far something is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import TextIO

_WIDTH = 30


class ProgressBar:
    """A bar on standard error, drawn anew at each update; only on a terminal."""

    def __init__(self, title: str, stream: TextIO = sys.stderr) -> None:
        self.title = title
        self.stream = stream
        self.on_terminal = stream.isatty()
        self._started = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        self.update(0.0)
        return self

    def update(self, part: float) -> None:
        """Show that `part` of 1 is done; may be called from any thread."""
        if not self.on_terminal:
            return
        done = round(_WIDTH * min(1.0, part))
        bar = "█" * done + "·" * (_WIDTH - done)
        seconds = time.monotonic() - self._started
        self.stream.write(f"\r{self.title} {bar} {part:4.0%} {seconds:5.1f} s")
        self.stream.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.on_terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
