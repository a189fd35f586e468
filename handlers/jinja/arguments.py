"""The arguments of calls, and what every builtin is: a function of its arguments."""

from collections.abc import Callable
from typing import Protocol

from handlers.jinja.errors import NotImplementedInTemplate, TemplateError
from handlers.jinja.values import Function, Kwarg, Undefined, Value, is_integer, truth, type_name


class Scope(Protocol):
    """What a builtin asks of the scope it is called in."""

    tracking: bool


class Args:
    """The arguments of a call, with the value a builtin is bound to in front."""

    __slots__ = ("items", "name", "scope")

    def __init__(self, scope: Scope, items: list[Value], name: str = "") -> None:
        self.scope = scope
        self.items = items
        self.name = name

    def __len__(self) -> int:
        return len(self.items)

    def at(self, index: int) -> Value:
        """A positional argument."""
        if index < len(self.items):
            return self.items[index]
        raise TemplateError(
            f"Function '{self.name}' expected at least {index + 1} arguments,"
            f" got {len(self.items)}"
        )

    def kwarg(self, key: str, index: int = -1) -> Value:
        """A keyword argument, or the positional one in its place."""
        for item in self.items:
            if isinstance(item, Kwarg) and item.key == key:
                if isinstance(item.value, Undefined):
                    break
                return item.value
        if 0 <= index < len(self.items) and not isinstance(self.items[index], Kwarg):
            return self.items[index]
        return Undefined()

    def check_count(self, low: int, high: int = 999) -> None:
        """TemplateError unless there are that many."""
        if not low <= len(self.items) <= high:
            raise TemplateError(
                f"Function '{self.name}' expected between {low} and {high} arguments,"
                f" got {len(self.items)}"
            )

    def check_types(self, *types: str) -> None:
        """TemplateError unless the arguments are of these types; all of them have to be there."""
        self.check_count(len(types))
        for value, wanted in zip(self.items, types, strict=False):
            if not IS_TYPE[wanted](value):
                name = f"value_{wanted}_t"
                raise TemplateError(
                    f"Function '{self.name}' expected value of type"
                    f" St10shared_ptrIN5jinja{len(name)}{name}EE, got {type_name(value)}"
                )


Builtin = Callable[[Args], Value]

IS_TYPE: dict[str, Callable[[Value], bool]] = {
    "string": lambda v: isinstance(v, bytes),
    "int": is_integer,
    "float": lambda v: isinstance(v, float),
    "bool": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, dict),
}


def call(function: Value, args: Args) -> Value:
    """Call a function value."""
    if not isinstance(function, Function):
        raise TemplateError(f"Callee is not a function: got {type_name(function)}")
    return function.call(Args(args.scope, [*function.bound, *args.items], function.name))


# --- makers of builtins ---


def default(args: Args) -> Value:
    """`default`: another value for what is missing or none, or for all that is false."""
    args.check_count(2, 3)
    value = args.at(0)
    if truth(args.kwarg("boolean", 2)):
        absent = not truth(value)
    else:
        absent = value is None or isinstance(value, Undefined)
    return args.at(1) if absent else value


def missing(message: str) -> Builtin:
    """A builtin that upstream doesn't have either."""

    def builtin(args: Args) -> Value:
        raise NotImplementedInTemplate(message)

    return builtin


def constant(make: Callable[[], Value]) -> Builtin:
    """A builtin that gives the same for all arguments."""
    return lambda args: make()


def typed(function: Callable[..., Value], *types: str) -> Builtin:
    """A function of values of these types."""

    def builtin(args: Args) -> Value:
        args.check_types(*types)
        return function(*args.items[: len(types)])

    return builtin
