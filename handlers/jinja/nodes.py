"""The nodes of a parsed template; executing them does what `jinja/runtime.cpp` does."""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from handlers.jinja.builtins import FUNCTIONS, TESTS, Args, builtins_of, call, contains
from handlers.jinja.errors import LocatedError, TemplateError, located
from handlers.jinja.values import (
    BareObject,
    Function,
    Kwarg,
    Undefined,
    Value,
    as_int,
    as_text,
    checked_key,
    equal,
    int_of_double,
    is_hashable,
    is_integer,
    is_number,
    mark_used,
    printed,
    truth,
    type_name,
)

_CONSTANTS: dict[str, Value] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
}
_MISSING = object()


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


class _Break(Exception):
    """`{% break %}`."""


class _Continue(Exception):
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
        except (LocatedError, _Break, _Continue):
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
    """What the nodes write."""
    return b"".join([printed(node.execute(scope)) for node in nodes])


# --- statements ---


class Nothing(Node):
    """A comment, or a tag that is passed over."""

    __slots__ = ()

    def run(self, scope: Scope) -> Value:
        return Undefined()


class If(Node):
    """`{% if %}`."""

    __slots__ = ("alternate", "body", "test")
    type_name = "If"

    def __init__(self, test: Node, body: Sequence[Node], alternate: Sequence[Node]) -> None:
        self.test = test
        self.body = body
        self.alternate = alternate

    def run(self, scope: Scope) -> Value:
        return run_all(self.body if truth(self.test.execute(scope)) else self.alternate, scope)


class For(Node):
    """`{% for %}`. Its rounds share one scope; what they set is gone afterwards."""

    __slots__ = ("alternate", "body", "iterable", "target")
    type_name = "For"

    def __init__(
        self, target: Node, iterable: Node, body: Sequence[Node], alternate: Sequence[Node]
    ) -> None:
        self.target = target
        self.iterable = iterable
        self.body = body
        self.alternate = alternate

    def run(self, scope: Scope) -> Value:
        inner = scope.inner()
        chosen = self.iterable if isinstance(self.iterable, Select) else None
        values = (chosen.items if chosen else self.iterable).execute(inner)
        items = self._items(values, scope.tracking)
        if chosen:
            items = [item for item in items if self._passes(chosen.test, item, inner)]
        else:
            for item in items:
                self._check(item)
        written: list[bytes] = []
        any_whole = False
        for index, item in enumerate(items):
            inner.variables["loop"] = _loop(items, index)
            self._bind(item, inner)
            try:
                for node in self.body:
                    written.append(printed(node.execute(inner)))
            except _Continue:
                continue
            except _Break:
                break
            any_whole = True
        if not any_whole:
            written.append(run_all(self.alternate, scope))
        return b"".join(written)

    def _items(self, values: Value, tracking: bool) -> list[Value]:
        if tracking:
            mark_used(values, "array_access")
        if isinstance(values, Undefined):
            return []
        if isinstance(values, dict):
            if tracking:
                mark_used(values, "object_access")
            return list(values) if isinstance(self.target, Name) else list(values.items())
        if isinstance(values, list | tuple):
            return list(values)
        raise TemplateError(
            f"Expected iterable or object type in for loop: got {type_name(values)}"
        )

    def _passes(self, test: Node, item: Value, scope: Scope) -> bool:
        self._check(item)
        inner = scope.inner()
        self._bind(item, inner)
        return truth(test.execute(inner))

    def _check(self, item: Value) -> None:
        if isinstance(self.target, Name):
            return
        if not isinstance(self.target, Tuple):
            raise TemplateError(f"Invalid loop variable(s): {self.target.type_name}")
        if not isinstance(item, list | tuple):
            raise TemplateError(f"Cannot unpack non-iterable type: {type_name(item)}")
        if len(self.target.items) != len(item):
            amount = "few" if len(self.target.items) > len(item) else "many"
            raise TemplateError(f"Too {amount} items to unpack")

    def _bind(self, item: Value, scope: Scope) -> None:
        if isinstance(self.target, Name):
            scope.variables[self.target.name] = item
        elif isinstance(self.target, Tuple):
            for target, part in zip(self.target.items, item, strict=True):
                if not isinstance(target, Name):
                    raise TemplateError(
                        f"Cannot unpack non-identifier type: {target.type_name}"
                    )
                scope.variables[target.name] = part


def _loop(items: list[Value], index: int) -> BareObject:
    size = len(items)
    last = index == size - 1
    return BareObject(
        {
            b"index": index + 1,
            b"index0": index,
            b"revindex": size - index,
            b"revindex0": size - index - 1,
            b"first": index == 0,
            b"last": last,
            b"length": size,
            b"previtem": items[index - 1] if index else Undefined("previtem"),
            b"nextitem": Undefined("nextitem") if last else items[index + 1],
        }
    )


class Break(Node):
    """`{% break %}`."""

    __slots__ = ()
    type_name = "Break"

    def run(self, scope: Scope) -> Value:
        raise _Break


class Continue(Node):
    """`{% continue %}`."""

    __slots__ = ()
    type_name = "Continue"

    def run(self, scope: Scope) -> Value:
        raise _Continue


class Set(Node):
    """`{% set %}`, of a value or of what its body writes."""

    __slots__ = ("body", "target", "value")
    type_name = "Set"

    def __init__(self, target: Node, value: Node | None, body: Sequence[Node]) -> None:
        self.target = target
        self.value = value
        self.body = body

    def run(self, scope: Scope) -> Value:
        value = self.value.execute(scope) if self.value else run_all(self.body, scope)
        target = self.target
        if isinstance(target, Name):
            scope.variables[target.name] = value
        elif isinstance(target, Tuple):
            self._unpack(target, value, scope)
        elif isinstance(target, Member):
            self._set_member(target, value, scope)
        else:
            raise TemplateError(
                f"Invalid LHS inside assignment expression: {target.type_name}"
            )
        return Undefined()

    def _unpack(self, target: "Tuple", value: Value, scope: Scope) -> None:
        if not isinstance(value, list | tuple):
            raise TemplateError(f"Cannot unpack non-iterable type in set: {type_name(value)}")
        if len(value) != len(target.items):
            amount = "few" if len(target.items) > len(value) else "many"
            raise TemplateError(f"Too {amount} items to unpack in set")
        for item, part in zip(target.items, value, strict=True):
            if not isinstance(item, Name):
                raise TemplateError(f"Cannot unpack to non-identifier in set: {item.type_name}")
            scope.variables[item.name] = part

    def _set_member(self, target: "Member", value: Value, scope: Scope) -> None:
        if target.computed:
            raise TemplateError("Cannot assign to computed member")
        if not isinstance(target.member, Name):
            raise TemplateError("Cannot assign to member with non-identifier property")
        owner = target.owner.execute(scope)
        if not isinstance(owner, dict):
            raise TemplateError("Cannot assign to member of non-object")
        owner[target.member.name.encode("latin-1")] = value


class Macro(Node):
    """`{% macro %}`. It sees the variables of the place that calls it."""

    __slots__ = ("body", "name", "parameters")
    type_name = "Macro"

    def __init__(self, name: Node, parameters: Sequence[Node], body: Sequence[Node]) -> None:
        self.name = name
        self.parameters = parameters
        self.body = body

    def run(self, scope: Scope) -> Value:
        if not isinstance(self.name, Name):
            raise TemplateError("Macro name must be an identifier")
        name = self.name.name

        def invoke(args: Args) -> Value:
            outer = args.scope
            if not isinstance(outer, Scope):
                raise TemplateError("cannot exec Macro")
            inner = outer.inner()
            _bind_parameters(name, self.parameters, args, outer, inner)
            return run_all(self.body, inner)

        scope.variables[name] = Function(name, invoke)
        return Undefined()


class CallBlock(Node):
    """`{% call %}`: its body becomes the function `caller`."""

    __slots__ = ("body", "call", "parameters")
    type_name = "CallStatement"

    def __init__(self, call: "Call", parameters: Sequence[Node], body: Sequence[Node]) -> None:
        self.call = call
        self.parameters = parameters
        self.body = body

    def run(self, scope: Scope) -> Value:
        callee = self.call.callee.execute(scope)
        if not isinstance(callee, Function):
            raise TemplateError(f"Callee is not a function: got {type_name(callee)}")
        seen = scope.inner()

        def caller(args: Args) -> Value:
            inner = seen.inner()
            outer = args.scope if isinstance(args.scope, Scope) else seen
            _bind_parameters("caller", self.parameters, args, outer, inner)
            return run_all(self.body, inner)

        calling = scope.inner()
        calling.variables["caller"] = Function("caller", caller)
        return call(callee, Args(calling, [arg.execute(scope) for arg in self.call.args]))


def _bind_parameters(
    name: str, parameters: Sequence[Node], args: Args, outer: Scope, inner: Scope
) -> None:
    """Set a macro's parameters; defaults are evaluated where the macro is called."""
    for index, parameter in enumerate(parameters):
        default = None
        target = parameter
        if isinstance(parameter, KeywordArgument):
            target, default = parameter.key, parameter.value
            if not isinstance(target, Name):
                raise TemplateError(f"Keyword argument key must be an identifier in '{name}'")
        if index < len(args):
            if not isinstance(target, Name):
                raise TemplateError(f"Invalid parameter type in '{name}'")
            inner.variables[target.name] = args.kwarg(target.name, index)
        elif default is not None and isinstance(target, Name):
            inner.variables[target.name] = default.execute(outer)
        else:
            raise TemplateError(f"Not enough arguments provided to '{name}'")


class FilterBlock(Node):
    """`{% filter %}`: a filter over what the body writes."""

    __slots__ = ("body", "filter")
    type_name = "FilterStatement"

    def __init__(self, filter: Node, body: Sequence[Node]) -> None:
        self.filter = filter
        self.body = body

    def run(self, scope: Scope) -> Value:
        return apply_filter(self.filter, run_all(self.body, scope), scope)


# --- expressions ---


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
        return _operate(operator, left, right, scope)


def _operate(operator: str, left: Value, right: Value, scope: Scope) -> Value:
    joins = operator in ("+", "~")
    absent = [v is None or isinstance(v, Undefined) for v in (left, right)]
    if any(absent):
        return _operate_absent(operator, left, right, absent)
    if is_number(left) and is_number(right):
        result = _arithmetic(operator, left, right)
        if result is not None:
            return result
    right_array = isinstance(right, list | tuple)
    if isinstance(left, list | tuple) and right_array:
        if operator == "+":
            return [*left, *right]
    elif right_array:
        member = contains(Args(scope, [left, right]))
        if operator in ("in", "not in"):
            return member is (operator == "in")
    texts = isinstance(left, bytes) + isinstance(right, bytes)
    if texts and joins:
        return as_text(left) + as_text(right)
    if operator == "*" and texts == 1 and (is_integer(left) or is_integer(right)):
        text, times = (left, right) if isinstance(left, bytes) else (right, left)
        return bytes(text) * max(times, 0)
    if texts == 2 or isinstance(right, dict):
        member = contains(Args(scope, [left, right]))
        if operator in ("in", "not in"):
            return member is (operator == "in")
    raise TemplateError(
        f'Unknown operator "{operator}" between {type_name(left)} and {type_name(right)}'
    )


def _operate_absent(operator: str, left: Value, right: Value, absent: list[bool]) -> Value:
    """An operator on undefined or None: joined to a text they are empty."""
    if isinstance(right, Undefined) and operator in ("in", "not in"):
        return operator == "not in"
    if operator in ("+", "~"):
        if absent[0] and isinstance(right, bytes):
            return bytes(right)
        if absent[1] and isinstance(left, bytes):
            return bytes(left)
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        raise TemplateError(f"Cannot perform operation {operator} on undefined values")
    raise TemplateError("Cannot perform operation on null values")


def _arithmetic(operator: str, left: int | float, right: int | float) -> Value:
    """Numbers are calculated as doubles, whole ones too; None if there is no such operator."""
    a, b = float(left), float(right)
    if operator in ("<", ">", "<=", ">="):
        return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]
    if operator == "/":
        return a / b if b else math.copysign(math.inf, a * math.copysign(1, b)) if a else math.nan
    if operator == "%":
        result = math.fmod(a, b) if b and math.isfinite(a) else math.nan
    elif operator in ("+", "-", "*"):
        result = a + b if operator == "+" else a - b if operator == "-" else a * b
    else:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return result
    return int_of_double(result)


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
