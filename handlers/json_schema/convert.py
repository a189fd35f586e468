"""Turns a schema into rules, one kind of schema after the other, in the reference's order."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from generated import wire
from generated.jsontext import Json, dumps
from handlers.json_schema.names import other_names
from handlers.json_schema.patterns import Invalid, Unsupported, pattern_rule
from handlers.json_schema.ranges import HIGHEST, LOWEST, integer_range
from handlers.json_schema.references import References
from handlers.json_schema.rules import (
    FORMATS,
    READY,
    RESERVED,
    TYPES,
    Rules,
    as_name,
    literal,
    repeated,
)

log = logging.getLogger(__name__)

_UUID = re.compile("uuid[1-5]?")
_SEPARATOR = ' "," space '
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
Object = dict[str, Json]


def schema_to_grammar(schema: Json) -> str:
    """The grammar (GBNF) of the JSON that `schema` describes.

    Raises ValueError with the text of llama.cpp's converter for what it refuses.
    """
    converter = Converter()
    try:
        converter.collect_references(schema)
        converter.convert(schema, "")
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    return converter.grammar()


class Converter:
    """A grammar that is put together from schemas, and from rules given as text."""

    def __init__(self, *, dotall: bool = False) -> None:
        self.rules = Rules()
        self._dotall = dotall  # whether the dot of a pattern takes line ends too
        self._errors: list[str] = []
        self._warnings: list[str] = []
        self._references = References(self._errors)
        self._resolving: set[str] = set()
        self._merging: set[str] = set()

    def collect_references(self, schema: Json) -> None:
        """Find what the `$ref`s in `schema` stand for; to be called before it is converted."""
        self._references.collect(schema)

    def grammar(self) -> str:
        """The grammar; raises ValueError with everything that was wrong in the schemas."""
        if self._errors:
            raise ValueError("JSON schema conversion failed:\n" + "\n".join(self._errors))
        if self._warnings:
            log.warning("JSON schema conversion was incomplete: %s", "; ".join(self._warnings))
        return str(self.rules)

    def convert(self, schema: Json, name: str) -> str:
        """Add the rules of `schema` under a name, empty for the root; returns the rule's name."""
        rule_name = f"{name}-" if name in RESERVED else name or "root"
        given = schema if isinstance(schema, dict) else {}
        kind = given.get("type")
        format_name = wire.get_string(given["format"]) if "format" in given else ""
        text = self._structure(given, kind, name)
        if text is not None:
            return self.rules.add(rule_name, text)
        if _may_be(kind, "string") and "pattern" in given:
            return self._pattern(wire.get_string(given["pattern"]), rule_name)
        if _may_be(kind, "string") and _UUID.fullmatch(format_name):
            return self._ready("root" if rule_name == "root" else format_name, "uuid")
        if _may_be(kind, "string") and f"{format_name}-string" in FORMATS:
            ready = self._ready(f"{format_name}-string", f"{format_name}-string")
            return self.rules.add(rule_name, ready)
        if kind == "string" and ("minLength" in given or "maxLength" in given):
            return self.rules.add(rule_name, self._string_of_length(given))
        if kind == "integer" and any(bound in given for bound in _BOUNDS):
            return self.rules.add(rule_name, _integers(given))
        if wire.is_empty(schema) or kind == "object":
            return self.rules.add(rule_name, self._ready("object", "object"))
        if kind is None and isinstance(schema, dict):
            return self.rules.add(rule_name, self._ready("value", "value"))
        if not isinstance(kind, str) or kind not in TYPES:
            self._errors.append(f"Unrecognized schema: {dumps(schema)}")
            return ""
        return self._ready("root" if rule_name == "root" else kind, kind)

    def _ready(self, name: str, ready: str) -> str:
        return self.rules.add_ready(name, READY[ready])

    def _structure(self, schema: Object, kind: Json, name: str) -> str | None:
        """A rule's text for a schema made of other schemas or of values; None for any other."""
        if "$ref" in schema:
            return self._reference(wire.get_string(schema["$ref"]))
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return self._any_of(wire.elements(schema[several]), name)
        if isinstance(kind, list):
            return self._any_of([{**schema, "type": one} for one in kind], name)
        if "const" in schema:
            return literal(dumps(schema["const"]))
        if "enum" in schema:
            return f"({' | '.join(literal(dumps(v)) for v in wire.elements(schema['enum']))})"
        if _may_be(kind, "object") and (
            "properties" in schema or schema.get("additionalProperties", True) is not True
        ):
            properties = _members(schema.get("properties"))
            further = schema.get("additionalProperties")
            return self._object(properties, _strings(schema.get("required")), name, further)
        if (_may_be(kind, "object") or kind == "string") and "allOf" in schema:
            return self._all_of(schema["allOf"], name)
        if _may_be(kind, "array") and ("items" in schema or "prefixItems" in schema):
            return self._array(schema, name)
        return None

    def _reference(self, reference: str) -> str:
        name = "ref" + as_name(reference.split("#", 1)[-1])
        if name not in self.rules and reference not in self._resolving:
            self._resolving.add(reference)
            name = self.convert(self._references[reference], name)
            self._resolving.discard(reference)
        return name

    def _any_of(self, schemas: Iterable[object], name: str) -> str:
        prefix = _joined(name, "") if name else "alternative-"
        return " | ".join(
            self.convert(schema, f"{prefix}{number}")  # type: ignore[arg-type]
            for number, schema in enumerate(schemas)
        )

    def _all_of(self, schemas: Json, name: str) -> str:
        """Objects with the properties of all parts, or the values that all parts list."""
        merged = _Merged()
        for part in wire.elements(schemas):
            if isinstance(part, dict) and "anyOf" in part:
                for one in wire.elements(part["anyOf"]):
                    self._merge(one, merged, required=False)
            else:
                self._merge(part, merged, required=True)
        count = len(wire.elements(schemas))
        common = [value for value, times in merged.values.items() if times == count]
        if common:
            common.sort(key=lambda value: value.encode(errors="surrogateescape"))
            return f"({' | '.join(common)})"
        return self._object(merged.properties, merged.required, name, None)

    def _merge(self, part: object, merged: _Merged, *, required: bool) -> None:
        if not isinstance(part, dict):
            return
        if "$ref" in part:
            reference = wire.get_string(part["$ref"])
            # The reference runs out of stack on a part that is itself.
            if reference in self._merging:
                raise ValueError(f"allOf contains itself: {reference}")
            self._merging.add(reference)
            self._merge(self._references[reference], merged, required=required)
            self._merging.discard(reference)
        elif "properties" in part:
            properties = _members(part["properties"])
            merged.properties += properties
            if required:
                merged.required |= {name for name, _ in properties}
        elif "enum" in part:
            for value in wire.elements(part["enum"]):
                text = literal(dumps(value))
                merged.values[text] = merged.values.get(text, 0) + 1

    def _object(
        self,
        properties: Sequence[tuple[str, Json]],
        required: set[str],
        name: str,
        further: Json,
    ) -> str:
        """Required properties, then any of the optional ones, each in the order listed."""
        pairs: dict[str, str] = {}
        for key, schema in properties:
            value = self.convert(schema, _joined(name, key))
            text = f'{literal(dumps(key))} space ":" space {value}'
            pairs[key] = self.rules.add(_joined(name, f"{key}-kv"), text)
        always = [key for key, _ in properties if key in required]
        optional = [key for key, _ in properties if key not in required]
        if further is True or isinstance(further, dict):
            pairs["*"] = self._further([key for key, _ in properties], name, further)
            optional.append("*")
        text = '"{" space ' + _SEPARATOR.join(pairs[key] for key in always)
        if optional:
            ways = " | ".join(self._optional(optional, pairs, name))
            text += f' ( "," space ( {ways} ) )?' if always else f" ({ways} )?"
        return text + ' space "}"'

    def _further(self, names: list[str], name: str, schema: Json) -> str:
        """The rule of a property that isn't listed."""
        prefix = _joined(name, "additional")
        if isinstance(schema, dict):
            value = self.convert(schema, f"{prefix}-value")
        else:
            value = self._ready("value", "value")
        if names:
            key = self.rules.add(f"{prefix}-k", other_names(names, self._ready("char", "char")))
        else:
            key = self._ready("string", "string")
        return self.rules.add(f"{prefix}-kv", f'{key} ":" space {value}')

    def _optional(self, keys: list[str], pairs: dict[str, str], name: str) -> list[str]:
        """One alternative for each property that may come first; the later ones may follow."""
        ways: list[str] = []
        rest = ""  # what may follow: the rule of all properties behind this one
        for number in reversed(range(len(keys))):
            pair = pairs[keys[number]]
            more = f'( "," space {pair} )'
            repeats = keys[number] == "*"
            ways.append((f"{pair} {more}*" if repeats else pair) + rest)
            if number:
                text = more + ("*" if repeats else "?") + rest
                rest = " " + self.rules.add(_joined(name, f"{keys[number - 1]}-rest"), text)
        return ways[::-1]

    def _array(self, schema: Object, name: str) -> str:
        items = schema["items"] if "items" in schema else schema["prefixItems"]
        if isinstance(items, list):
            rules = [
                self.convert(item, _joined(name, f"tuple-{number}"))
                for number, item in enumerate(items)
            ]
            return '"[" space ' + _SEPARATOR.join(rules) + ' space "]"'
        item = self.convert(items, _joined(name, "item"))
        least = wire.get_int32(schema["minItems"]) if "minItems" in schema else 0
        given = schema.get("maxItems")
        most = None
        if isinstance(given, int) and not isinstance(given, bool):
            most = wire.get_int32(given)
        return '"[" space ' + repeated(item, least, most, _SEPARATOR.strip()) + ' space "]"'

    def _pattern(self, pattern: str, name: str) -> str:
        before = self.rules.saved()
        try:
            return pattern_rule(pattern, name, self.rules, dotall=self._dotall)
        except Unsupported as error:
            self.rules.restore(before)
            self._warnings.append(
                f"pattern {pattern} is not supported ({error}), accepting any string"
            )
            return self.rules.add(name, self._ready("string", "string"))
        except Invalid as error:
            self.rules.restore(before)
            self._errors.append(f"Invalid pattern {pattern}: {error}")
            return ""

    def _string_of_length(self, schema: Object) -> str:
        char = self._ready("char", "char")
        least = wire.get_int32(schema["minLength"]) if "minLength" in schema else 0
        most = wire.get_int32(schema["maxLength"]) if "maxLength" in schema else None
        return rf'"\"" {repeated(char, least, most)} "\""'


class _Merged:
    """What the parts of `allOf` have together."""

    def __init__(self) -> None:
        self.properties: list[tuple[str, Json]] = []
        self.required: set[str] = set()
        self.values: dict[str, int] = {}  # by literal: how often it is listed


def _may_be(kind: Json, name: str) -> bool:
    return kind is None or kind == name


def _joined(name: str, further: str) -> str:
    return f"{name}-{further}" if name else further


def _members(value: Json) -> list[tuple[str, Json]]:
    """Names and schemas, as the reference's loop over the members gives them for any value."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [(str(number), item) for number, item in enumerate(value)]
    return [] if value is None else [("", value)]


def _strings(value: Json) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _integers(schema: Object) -> str:
    least, most = LOWEST, HIGHEST
    if "minimum" in schema:
        least = wire.get_int64(schema["minimum"])
    elif "exclusiveMinimum" in schema:
        least = wire.get_int64(schema["exclusiveMinimum"]) + 1
    if "maximum" in schema:
        most = wire.get_int64(schema["maximum"])
    elif "exclusiveMaximum" in schema:
        most = wire.get_int64(schema["exclusiveMaximum"]) - 1
    return f"({integer_range(least, most)})"
