"""What a schema's `$ref`s stand for."""

from __future__ import annotations

from generated import wire
from generated.jsontext import Json, dumps


class References:
    """The referenced parts of one schema, by the text of `$ref`; what can't be found is noted."""

    def __init__(self, errors: list[str]) -> None:
        self._errors = errors
        self._found: dict[str, Json] = {}

    def __getitem__(self, reference: str) -> Json:
        return self._found.get(reference)

    def __contains__(self, reference: str) -> bool:
        return reference in self._found

    def collect(self, schema: Json) -> None:
        """Look up every `$ref` in `schema`; nothing is ever fetched from elsewhere."""
        pending = [schema]
        while pending:
            part = pending.pop()
            if isinstance(part, dict) and "$ref" in part:
                self._look_up(wire.get_string(part["$ref"]), schema)
            elif isinstance(part, (dict, list)):
                pending += reversed(_items(part))

    def _look_up(self, reference: str, schema: Json) -> None:
        if reference in self._found:
            return
        target: Json = None
        if reference.startswith("https://"):
            base, _, fragment = reference.partition("#")
            target = self._found.setdefault(base, None)
            if not fragment:
                return
        elif reference.startswith("#/"):
            target = schema
        else:
            self._errors.append(f"Unsupported ref: {reference}")
            return
        for step in reference.split("#", 1)[1].split("/")[1:]:
            if isinstance(target, dict) and step in target:
                target = target[step]
            elif isinstance(target, list) and (number := _index(step)) < len(target):
                target = target[number]
            else:
                self._errors.append(
                    f"Error resolving ref {reference}: {step} not in {dumps(target)}"
                )
                return
        self._found[reference] = target


def _items(part: Json) -> list[Json]:
    if isinstance(part, dict):
        return list(part.values())
    return list(part) if isinstance(part, list) else []


def _index(step: str) -> int:
    """As C++'s `stoull` reads a number; what isn't one is beyond every list."""
    text = step.lstrip(" \t\n\v\f\r")
    sign = text[:1] if text[:1] in ("+", "-") else ""
    digits = text[len(sign) :]
    count = 0
    while count < len(digits) and digits[count] in "0123456789":
        count += 1
    if not count:
        return 1 << 64
    number = int(digits[:count])
    if number >= 1 << 64:
        raise ValueError("stoull")
    return -number % (1 << 64) if sign == "-" else number
