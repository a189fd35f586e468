"""The mark of a key that isn't there, which null is not."""
# Copied by `python -m codegen gen` from codegen/runtime/absent.py; edit that.

from typing import Any, Final


class Absent:
    """The type of the mark."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final[Any] = Absent()
"""In a request: the key was missing. In a reply: leave the key out."""


def raw(body: object, name: str) -> Any:
    """The member as it stands, null too, or ABSENT."""
    return body.get(name, ABSENT) if isinstance(body, dict) else ABSENT
