"""What all nodes of a parsed template have in common, and the scopes they are executed in."""

from collections.abc import Iterable
from typing import ClassVar

from handlers.jinja.errors import LocatedError, TemplateError, located
from handlers.jinja.values import Value, printed

_CONSTANTS: dict[str, Value] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
}


class Scope:
    """The variables in sight. A loop, a macro and a call block have one of their own."""

    __slots__ = ("source", "tracking", "variables")

    def __init__(
        self, source: str, variables: dict[str, Value], *, tracking: bool = False
    ) -> None:
        """`source`, one character for each byte, is what errors show."""
        self.source = source
        self.tracking = tracking
        self.variables = _CONSTANTS | variables

    def inner(self) -> "Scope":
        """A scope that begins with these variables."""
        made = Scope.__new__(Scope)
        made.source = self.source
        made.tracking = self.tracking
        made.variables = dict(self.variables)
        return made


class BreakLoop(Exception):
    """`{% break %}`."""


class ContinueLoop(Exception):
    """`{% continue %}`."""


class Node:
    """One node; `pos` is the byte of the source that errors point to."""

    __slots__ = ("pos",)
    type_name: ClassVar[str] = "Statement"
    pos: int

    def execute(self, scope: Scope) -> Value:
        """The node's value; what goes wrong says where, if nothing inside has said so."""
        try:
            return self.run(scope)
        except (LocatedError, BreakLoop, ContinueLoop):
            raise
        except TemplateError as error:
            message = error.text
        except (ArithmeticError, RecursionError, MemoryError) as error:
            message = str(error)
        raise LocatedError(
            located(self.type_name, message, scope.source, self.pos)
        ) from None

    def run(self, scope: Scope) -> Value:
        """The node's value."""
        raise TemplateError(f"cannot exec {self.type_name}")


def run_all(nodes: Iterable[Node], scope: Scope) -> bytes:
    """What the nodes write. An array that changes meanwhile shows as it is in the end."""
    return printed([node.execute(scope) for node in nodes])
