"""The statements of templates."""

from collections.abc import Sequence

from handlers.jinja.arguments import Args, call
from handlers.jinja.errors import TemplateError
from handlers.jinja.expressions import (
    Call,
    KeywordArgument,
    Member,
    Name,
    Select,
    Tuple,
    apply_filter,
)
from handlers.jinja.nodes import BreakLoop, ContinueLoop, Node, Scope, run_all
from handlers.jinja.values import (
    BareObject,
    Function,
    Undefined,
    Value,
    mark_used,
    printed,
    truth,
    type_name,
)


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
        written: list[Value] = []
        any_whole = False
        for index, item in enumerate(items):
            inner.variables["loop"] = _loop(items, index)
            self._bind(item, inner)
            try:
                for node in self.body:
                    written.append(node.execute(inner))
            except ContinueLoop:
                continue
            except BreakLoop:
                break
            any_whole = True
        if not any_whole:
            written.append(run_all(self.alternate, scope))
        return printed(written)

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
        raise BreakLoop


class Continue(Node):
    """`{% continue %}`."""

    __slots__ = ()
    type_name = "Continue"

    def run(self, scope: Scope) -> Value:
        raise ContinueLoop


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

    def _unpack(self, target: Tuple, value: Value, scope: Scope) -> None:
        if not isinstance(value, list | tuple):
            raise TemplateError(f"Cannot unpack non-iterable type in set: {type_name(value)}")
        if len(value) != len(target.items):
            amount = "few" if len(target.items) > len(value) else "many"
            raise TemplateError(f"Too {amount} items to unpack in set")
        for item, part in zip(target.items, value, strict=True):
            if not isinstance(item, Name):
                raise TemplateError(f"Cannot unpack to non-identifier in set: {item.type_name}")
            scope.variables[item.name] = part

    def _set_member(self, target: Member, value: Value, scope: Scope) -> None:
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

    def __init__(self, call: Call, parameters: Sequence[Node], body: Sequence[Node]) -> None:
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
