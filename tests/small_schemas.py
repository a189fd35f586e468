"""Fifty schemas of varied kinds whose answers are a few tokens long."""

from typing import Any

WORD = {"type": "string", "minLength": 1, "maxLength": 6}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
FLAG = {"type": "boolean"}


def _object(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], **more}


def _array(items: Any, least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


CLOSED = {"additionalProperties": False}

SCHEMAS: dict[str, dict[str, Any]] = {
    # Values that are named.
    "A mood": {"enum": ["happy", "sad", "bored"]},
    "A small prime": {"enum": [2, 3, 5, 7]},
    "Anything": {"enum": ["a", 1, None, True]},
    "A list or a word": {"enum": [[], "none", {"a": 1}]},
    "A typed colour": {"type": "string", "enum": ["red", "blue"]},
    "The answer": {"const": 42},
    "A greeting": {"const": "hello"},
    "An empty list": {"const": []},
    "A fixed object": {"const": {"ok": True}},
    "A quoted word": {"const": 'say "é"\n'},
    # Plain types.
    "Yes or no": FLAG,
    "Nothing": {"type": "null"},
    "Nothing or a flag": {"type": ["null", "boolean"]},
    "A digit or nothing": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
    # Integers with bounds.
    "A digit": DIGIT,
    "An age": {"type": "integer", "minimum": 18, "maximum": 99},
    "A temperature": {"type": "integer", "minimum": -40, "maximum": 50},
    "A year": {"type": "integer", "minimum": 1999, "maximum": 2024},
    "More than ten": {"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 1000},
    "Below zero": {"type": "integer", "minimum": -9, "maximum": -1},
    # Strings.
    "A name": WORD,
    "A short word": {"type": "string", "maxLength": 4},
    "A word of three": {"type": "string", "minLength": 3, "maxLength": 3},
    # Patterns.
    "A postal code": {"type": "string", "pattern": "^[0-9]{5}$"},
    "A phone number": {"type": "string", "pattern": "^[0-9]{3}-[0-9]{2}$"},
    "A plate": {"type": "string", "pattern": "^[A-Z]{2}[0-9]?$"},
    "A pet": {"type": "string", "pattern": "^(cat|dog)s?$"},
    "A version": {"type": "string", "pattern": "^v[0-9]\\.[0-9]$"},
    "A hex colour": {"type": "string", "pattern": "^#[0-9a-f]{3}$"},
    # Formats.
    "The date of today": {"type": "string", "format": "date"},
    "A time of day": {"type": "string", "format": "time"},
    # Arrays.
    "Two digits": _array(DIGIT, 2, 2),
    "Up to three flags": _array(FLAG, 0, 3),
    "A word in a list": _array(WORD, 1, 1),
    "A matrix": _array(_array(DIGIT, 1, 2), 1, 2),
    "A point": {"type": "array", "prefixItems": [DIGIT, DIGIT], "minItems": 2, "maxItems": 2},
    "A pair": {"type": "array", "prefixItems": [{"const": "x"}, FLAG], "minItems": 2},
    "Moods": _array({"enum": ["up", "down"]}, 1, 2),
    # Objects.
    "A state": _object({"on": FLAG}, "on"),
    "A size": _object({"w": DIGIT, "h": DIGIT}, "w", "h", **CLOSED),
    "Maybe a size": _object({"w": DIGIT}, **CLOSED),
    "A unit": _object({"unit": {"enum": ["EUR", "USD"]}}, "unit", **CLOSED),
    "A nested object": _object({"a": _object({"b": FLAG}, "b", **CLOSED)}, "a", **CLOSED),
    "Something in a list": _object({"all": _array(DIGIT, 1, 2)}, "all", **CLOSED),
    "An empty object": {"type": "object", "properties": {}, **CLOSED},
    # Choices, references, combinations.
    "Something or nothing": {"anyOf": [{"type": "null"}, {"const": "something"}]},
    "One of two": {"oneOf": [DIGIT, FLAG]},
    "A tree": {
        "$ref": "#/$defs/t",
        "$defs": {"t": _object({"n": DIGIT, "t": _array({"type": "null"}, 0, 1)}, "n", **CLOSED)},
    },
    "A chain": {
        # One step: the reference's conversion reads what two references lead to as any object.
        "$ref": "#/$defs/c",
        "$defs": {"c": {"anyOf": [{"type": "null"}, _array(DIGIT, 1, 1)]}},
    },
    "All of two": {"allOf": [_object({"a": FLAG}, "a"), _object({"b": DIGIT}, "b")]},
}
