"""The progress bar of a loading model."""

import io

from handlers.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_drawn_only_when_it_has_grown_and_is_gone_at_the_end() -> None:
    terminal = Terminal()
    with ProgressBar("loading", terminal) as bar:
        for part in (0.001, 0.5, 0.5, 0.4, 1.0, 1.0):
            bar.update(part)
    drawn = [text.split(" s")[0][:-4] for text in terminal.getvalue().split("\r")[1:-1]]
    assert drawn == [
        "loading ······························   0% ",
        "loading ███████████████···············  50% ",
    ]
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_elsewhere_it_says_nothing() -> None:
    stream = io.StringIO()
    with ProgressBar("loading", stream) as bar:
        bar.update(0.5)
    assert stream.getvalue() == ""
