"""The expressions of templates."""

from collections.abc import Sequence

from handlers.jinja.arguments import Args, call
from handlers.jinja.builtins import builtins_of
from handlers.jinja.errors import TemplateError
from handlers.jinja.functions import FUNCTIONS
from handlers.jinja.nodes import Node, Scope
from handlers.jinja.operators import operate
from handlers.jinja.tests import TESTS
from handlers.jinja.values import (
    Function,
    Kwarg,
    Undefined,
    Value,
    as_int,
    as_text,
    checked_key,
    equal,
    is_hashable,
    is_integer,
    is_number,
    mark_used,
    truth,
    type_name,
)

_MISSING = object()


class Name(Node):
    """A variable or a function."""

    __slots__ = ("name",)
    type_name = "Identifier"

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, scope: Scope) -> Value:
        value = scope.variables.get(self.name, _MISSING)
        if value is not _MISSING and not isinstance(value, Undefined):
            if scope.tracking:
                mark_used(value)
            return value
        function = FUNCTIONS.get(self.name)
        return Function(self.name, function) if function else Undefined(self.name)


class Literal(Node):
    """A number or a text, also the text between blocks."""

    __slots__ = ("name", "value")

    def __init__(self, value: Value) -> None:
        self.value = value

    def run(self, scope: Scope) -> Value:
        return self.value


class Array(Node):
    """`[a, b]`."""

    __slots__ = ("items",)
    type_name = "ArrayLiteral"

    def __init__(self, items: Sequence[Node]) -> None:
        self.items = items

    def run(self, scope: Scope) -> Value:
        return [item.execute(scope) for item in self.items]


class Tuple(Node):
    """`a, b`."""

    __slots__ = ("items",)
    type_name = "TupleLiteral"

    def __init__(self, items: Sequence[Node]) -> None:
        self.items = items

    def run(self, scope: Scope) -> Value:
        return tuple([item.execute(scope) for item in self.items])


class Object(Node):
    """`{a: b}`."""

    __slots__ = ("pairs",)
    type_name = "ObjectLiteral"

    def __init__(self, pairs: Sequence[tuple[Node, Node]]) -> None:
        self.pairs = pairs

    def run(self, scope: Scope) -> Value:
        made: dict[Value, Value] = {}
        for key, value in self.pairs:
            name, item = key.execute(scope), value.execute(scope)
            made[checked_key(name)] = item
        return made


class Binary(Node):
    """An operator between two expressions."""

    __slots__ = ("left", "operator", "right")
    type_name = "BinaryExpression"

    def __init__(self, operator: str, left: Node, right: Node) -> None:
        self.operator = operator
        self.left = left
        self.right = right

    def run(self, scope: Scope) -> Value:
        operator = self.operator
        left = self.left.execute(scope)
        if operator == "and":
            return self.right.execute(scope) if truth(left) else left
        if operator == "or":
            return left if truth(left) else self.right.execute(scope)
        right = self.right.execute(scope)
        if operator == "==":
            return equal(left, right)
        if operator == "!=":
            return not equal(left, right)
        return operate(operator, left, right, scope)


class Unary(Node):
    """`not` and `-`."""

    __slots__ = ("operand", "operator")
    type_name = "UnaryExpression"

    def __init__(self, operator: str, operand: Node) -> None:
        self.operator = operator
        self.operand = operand

    def run(self, scope: Scope) -> Value:
        value = self.operand.execute(scope)
        if self.operator == "not":
            return not truth(value)
        if self.operator != "-":
            raise TemplateError(f"Unknown unary operator '{self.operator}'")
        if is_number(value):
            return -value
        raise TemplateError("Unary - operator requires numeric operand")


class Ternary(Node):
    """`a if b else c`."""

    __slots__ = ("alternate", "test", "value")
    type_name = "Ternary"

    def __init__(self, test: Node, value: Node, alternate: Node) -> None:
        self.test = test
        self.value = value
        self.alternate = alternate

    def run(self, scope: Scope) -> Value:
        chosen = self.value if truth(self.test.execute(scope)) else self.alternate
        return chosen.execute(scope)


class Select(Node):
    """`a if b`: as a loop's iterable, the items that pass; elsewhere `a` or nothing."""

    __slots__ = ("items", "test")
    type_name = "SelectExpression"

    def __init__(self, items: Node, test: Node) -> None:
        self.items = items
        self.test = test

    def run(self, scope: Scope) -> Value:
        if truth(self.test.execute(scope)):
            return self.items.execute(scope)
        return Undefined()


class Filter(Node):
    """`a | b`."""

    __slots__ = ("filter", "operand")
    type_name = "FilterExpression"

    def __init__(self, operand: Node, filter: Node) -> None:
        self.operand = operand
        self.filter = filter

    def run(self, scope: Scope) -> Value:
        return apply_filter(self.filter, self.operand.execute(scope), scope)


_ALIASES = {"count": "length", "d": "default", "e": "escape", "trim": "strip"}
_ON_TEXTS = ("capitalize", "lower", "replace", "strip", "title", "upper", "wordcount")


def apply_filter(filter: Node, value: Value, scope: Scope) -> Value:
    """A filter on a value; without arguments, some make a text of it first."""
    if isinstance(filter, Name):
        name = _ALIASES.get(filter.name, filter.name)
        if name in _ON_TEXTS and not isinstance(value, bytes | Undefined):
            value = as_text(value)
        return call(_builtin(name, value, scope), Args(scope, []))
    if not isinstance(filter, Call):
        raise TemplateError("Invalid filter expression")
    if not isinstance(filter.callee, Name):
        raise TemplateError("Filter callee must be an identifier")
    name = _ALIASES.get(filter.callee.name, filter.callee.name)
    args = [arg.execute(scope) for arg in filter.args]
    return call(_builtin(name, value, scope), Args(scope, args))


def _builtin(name: str, value: Value, scope: Scope) -> Function:
    function = _find_builtin(name, value, scope)
    if function is None:
        raise TemplateError(f"Unknown (built-in) filter '{name}' for type {type_name(value)}")
    return function


def _find_builtin(name: str, value: Value, scope: Scope) -> Function | None:
    if scope.tracking:
        mark_used(value, name)
    function = builtins_of(value).get(name)
    return Function(name, function, (value,)) if function else None


class Test(Node):
    """`a is b`."""

    __slots__ = ("negated", "operand", "test")
    type_name = "TestExpression"

    def __init__(self, operand: Node, negated: bool, test: Node) -> None:
        self.operand = operand
        self.negated = negated
        self.test = test

    def run(self, scope: Scope) -> Value:
        args = [self.operand.execute(scope)]
        named = self.test
        if isinstance(named, Call):
            if not isinstance(named.callee, Name):
                raise TemplateError("Test callee must be an identifier")
            args += [arg.execute(scope) for arg in named.args]
            named = named.callee
        if not isinstance(named, Name):
            raise TemplateError("Invalid test expression")
        test = TESTS.get(named.name)
        if test is None:
            raise TemplateError(f"Unknown test '{named.name}'")
        result = test(Args(scope, args))
        return not truth(result) if self.negated else result


class Slice(Node):
    """What stands between the brackets of `a[b:c:d]`; Member executes it."""

    __slots__ = ("start", "step", "stop")
    type_name = "SliceExpression"

    def __init__(self, start: Node | None, stop: Node | None, step: Node | None) -> None:
        self.start = start
        self.stop = stop
        self.step = step

    def run(self, scope: Scope) -> Value:
        raise TemplateError("must be handled by MemberExpression")

    def of(self, owner: Value, scope: Scope) -> Value:
        """That part of a text or an array."""
        size = len(owner) if isinstance(owner, bytes | list | tuple) else 0
        step = self.step.execute(scope) if self.step else 1
        backwards = as_int(step) < 0 if not (self.start and self.stop) else False
        start = self.start.execute(scope) if self.start else size - 1 if backwards else 0
        stop = self.stop.execute(scope) if self.stop else -1 if backwards else size
        return call(_builtin("slice", owner, scope), Args(scope, [start, stop, step]))


class Member(Node):
    """`a.b` and `a[b]`."""

    __slots__ = ("computed", "member", "owner")
    type_name = "MemberExpression"

    def __init__(self, owner: Node, member: Node, computed: bool) -> None:
        self.owner = owner
        self.member = member
        self.computed = computed

    def run(self, scope: Scope) -> Value:
        owner = self.owner.execute(scope)
        if self.computed:
            if isinstance(self.member, Slice):
                return self.member.of(owner, scope)
            key = self.member.execute(scope)
        else:
            if not isinstance(self.member, Name):
                raise TemplateError("Static member property must be an identifier")
            key = self.member.name.encode("latin-1")
            # As in Python, a builtin hides a member of its name, except in `a["b"]`.
            builtin = _find_builtin(self.member.name, owner, scope)
            if builtin is not None:
                return builtin
        if isinstance(key, Undefined) or isinstance(owner, Undefined):
            if not isinstance(key, Undefined) and not is_hashable(key):
                raise TemplateError(f"Type: {type_name(key)} is not allowed as object key")
            return Undefined("object_property")
        if not is_hashable(key):
            raise TemplateError(f"Type: {type_name(key)} is not allowed as object key")
        value = _member(owner, key, scope)
        if scope.tracking:
            access = ("array_access",) if is_integer(key) else ()
            if isinstance(key, bytes):
                access = ("object_access",)
            mark_used(value)
            mark_used(owner, *access)
        return value


def _member(owner: Value, key: Value, scope: Scope) -> Value:
    missing = Undefined("object_property")
    if isinstance(owner, dict):
        value = owner.get(checked_key(key), missing)
        if isinstance(value, Undefined):
            name = as_text(key).decode("latin-1")
            return _find_builtin(name, owner, scope) or Undefined(name)
        return value
    if isinstance(owner, bytes | list | tuple):
        if is_integer(key):
            # Counting from the end is for arrays only.
            index = key + len(owner) if key < 0 and not isinstance(owner, bytes) else key
            if not 0 <= index < len(owner):
                return missing
            return owner[index : index + 1] if isinstance(owner, bytes) else owner[index]
        if not isinstance(key, bytes):
            raise TemplateError(
                f"Cannot access property with non-string/non-number: got {type_name(key)}"
            )
    elif not isinstance(key, bytes):
        raise TemplateError(f"Cannot access property with non-string: got {type_name(key)}")
    name = key.decode("latin-1")
    return _find_builtin(name, owner, scope) or Undefined(name)


class Call(Node):
    """`a(b)`."""

    __slots__ = ("args", "callee")
    type_name = "CallExpression"

    def __init__(self, callee: Node, args: Sequence[Node]) -> None:
        self.callee = callee
        self.args = args

    def run(self, scope: Scope) -> Value:
        args = [arg.execute(scope) for arg in self.args]
        return call(self.callee.execute(scope), Args(scope, args))


class KeywordArgument(Node):
    """`a=b` among arguments."""

    __slots__ = ("key", "value")
    type_name = "KeywordArgumentExpression"

    def __init__(self, key: Node, value: Node) -> None:
        self.key = key
        self.value = value

    def run(self, scope: Scope) -> Value:
        if not isinstance(self.key, Name):
            raise TemplateError("Keyword argument key must be identifiers")
        return Kwarg(self.key.name, self.value.execute(scope))


class Spread(Node):
    """`*a` among arguments: parsed, and an error when executed."""

    __slots__ = ("value",)
    type_name = "SpreadExpression"

    def __init__(self, value: Node) -> None:
        self.value = value
