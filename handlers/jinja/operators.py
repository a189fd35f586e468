"""What operators do with values."""

import math

from handlers.jinja.arguments import Args, Scope
from handlers.jinja.errors import TemplateError
from handlers.jinja.tests import contains
from handlers.jinja.values import (
    Undefined,
    Value,
    as_float,
    as_text,
    int_of_double,
    is_integer,
    is_number,
    type_name,
)


def operate(operator: str, left: Value, right: Value, scope: Scope) -> Value:
    """An operator other than the logical ones and equality."""
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
    a, b = as_float(left), as_float(right)
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
