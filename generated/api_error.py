"""An error as llama-server answers it: a kind, a message, and the JSON object that they make."""
# Copied by `python -m codegen gen` from codegen/runtime/api_error.py; edit that.

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """One error kind: upstream's type string, the HTTP status, and the key order of the object."""

    type: str
    code: int
    shape: str


class ApiError(Exception):
    """An error that a client sees. `extra` holds further keys of the error object, in order."""

    def __init__(self, kind: Kind, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.extra = extra

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.kind.code

    @property
    def error(self) -> dict[str, Any]:
        """The error object, keys in upstream's order for this kind."""
        kind = self.kind
        if kind.shape == "middleware":
            return {"message": self.message, "type": kind.type, "code": kind.code, **self.extra}
        if kind.shape == "bare":
            return {"message": self.message, "type": kind.type, **self.extra}
        return {"code": kind.code, "message": self.message, "type": kind.type, **self.extra}

    @property
    def body(self) -> dict[str, Any]:
        """The reply body."""
        return {"error": self.error}
