"""The errors this package raises on purpose; each one's text is a line to show to a user."""


class ModelError(Exception):
    """A model can't be used: `str()` is one plain line with the file, the fault and the way out."""

    def __init__(self, message: str) -> None:
        """Keep `message` on one line: what a broken file brings into it may hold anything."""
        one_line = " ".join(message.split())
        super().__init__(
            "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in one_line)
        )


class GroupBroken(BaseException):
    """Processes that share a model are no longer at the same point; there is no way back.

    It isn't an `Exception`, so that it isn't taken for the failure of one task.
    """
