"""Record which grammars llama-server makes of JSON Schemas, for tests/test_json_schema.py.

Usage: python tests/record_json_schemas.py http://127.0.0.1:PORT
"""

# ruff: noqa: E501 - one schema after the other reads best as a table

import json
import random
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BOUNDS = [
    (0, None), (1, None), (2, None), (5, None), (9, None), (10, None), (12, None), (30, None),
    (99, None), (100, None), (457, None), (9000, None), (123456789, None), (999999999999999, None),
    (-1, None), (-9, None), (-10, None), (-25, None), (-1000, None), (None, 0), (None, 1),
    (None, 9), (None, 10), (None, 47), (None, 100), (None, 9999), (None, -1), (None, -8),
    (None, -10), (None, -256), (0, 0), (0, 9), (0, 10), (0, 23), (5, 5), (3, 7), (7, 12),
    (15, 300), (100, 199), (100, 200), (123, 456), (123, 42), (1000, 9999), (999, 1001),
    (305, 310), (-5, -5), (-20, -3), (-123, 42), (-10, 10), (-1, 1), (-999, 12345),
    (0, 9223372036854775807), (-9223372036854775808, 5), (-9223372036854775808, None),
    (None, 9223372036854775807), (1.9, 12.9), (-1.5, None), (True, 4), ("1", 4), (3e30, None),
    (None, 18446744073709551615), (None, None), (9, 100), (190, 200), (200, 190), (10, 5),
]  # fmt: skip

PATTERNS = [
    "^$", "^a$", "^abc$", "^a.c$", "^a+$", "^a*b?$", "^ab+$", "^a{3}$", "^a{2,4}$", "^a{2,}$",
    "^a{,3}$", "^a{0}$", "^a{0,0}b$", "^(ab)+$", "^(ab|cd)$", "^a|b$", "^(a|b){2,3}$",
    "^(?:ab)*c$", "^[a-z]+$", "^[^a-z]$", "^[0-9]{3}-[0-9]{4}$", "^[a-z]{2}[a-z]{2}$",
    r"^\(?[0-9]{3}\)?$", r"^a\.b$", r"^\[x\]$", r"^\$[0-9]+\.[0-9]{2}$", r"^\d+$", r"^\w$",
    r"^[\d]$", r"^[\]x]$", r"^[a\-z]$", r"^\/$", r"^a\\b$", r"^\n\t\r$", r"^\x41$", r"^\u00e9$",
    r"^\U0001F600$", r"^\x4$", r"^[\x41-\x5a]$", "^a\"b$", "^\"$", "^é$", "^éa?$", "^é?$", "^a[é]$",
    "^日本{2}$", "^a$b$", "^a^b$", "a", "^a", "a$", "", "^", "$", "^^$", "^$$", "^(a$", "^a)$",
    "^((a)b$", "^()$", "^(|a)$", "^*$", "^+a$", "^?$", "^{2}$", "^a{$", "^a{2$", "^a{x}$", "^a{1,2,3}$",
    "^a{}$", "^a{ 2}$", "^a{2x}$", "^a{-1,2}$", "^a{99999999999}$", "^a{1,2147483647}$", "^]$",
    "^}$", "^a]$", "^a\\$", "^[a$", "^[]$", "^[]a]$", "^(?=a)b$", "^(?<n>a)$", "^(?i)a$", "^(?$",
    "^a**$", "^a+?$", "^a{2}{3}$", "^(a){2}(a){2}$", "^[ab]{2}.{2}[ab]{3}$", "^.{5}$", "^.*$", "^..$",
    "^a\nb$", "^ a b $", "^" + "(" * 99 + "a" + ")" * 99 + "$", "^" + "(" * 101 + "a" + ")" * 101 + "$",
    "^x-y_z$", "^(a{2}b){3}$", "^a.{0,1}$", "^-$", "^a,b$", "^a:b#c$", "^(([0-9]{1,2}:)?[0-5][0-9]){1,2}$",
]  # fmt: skip

S: Any = {"type": "string"}
N: Any = {"type": "number"}
I: Any = {"type": "integer"}  # noqa: E741
X: Any = {"x": S}

# More at least than at most is left out: the reference counts from there to 2^64.
OTHERS: list[Any] = [
    # Types.
    {}, {"type": "object"}, {"type": "array"}, S, N, I, {"type": "boolean"}, {"type": "null"},
    {"type": "value"}, {"type": "char"}, {"type": "uuid"}, {"type": "decimal-part"},
    {"type": "date"}, {"type": "foo"}, {"type": 123}, {"type": True}, {"type": {}}, {"type": None},
    {"type": ["string", "null"]}, {"type": ["integer", "boolean"], "minimum": 3}, {"type": []},
    {"type": ["array", "object"], "items": N, "properties": X}, {"type": ["foo"]}, {"type": [[]]},
    {"description": "anything"}, {"title": "x", "minimum": 2}, {"$schema": "http://x"},
    True, False, None, [], [1], 5, "text", 1.5, "",
    # Values.
    {"const": "foo"}, {"const": 123}, {"const": None}, {"const": 1.5}, {"const": -0.0},
    {"const": {"a": [1, "b"]}}, {"const": 'q"uo\\te\n'}, {"const": "é\u2028"}, {"const": ""},
    {"const": 1e100}, {"const": False}, {"const": [], "type": "string"},
    {"enum": ["red", "amber", "green", None, 42, ["foo"]]}, {"enum": []}, {"enum": "one"},
    {"enum": {"a": 1, "b": 2}}, {"enum": None}, {"enum": ['a"b', "c\\d"]}, {"enum": [1, 1]},
    {"type": "integer", "enum": [1, 2]}, {"type": "object", "const": 1, "properties": X},
    # Strings.
    {"type": "string", "minLength": 1}, {"type": "string", "minLength": 3},
    {"type": "string", "maxLength": 3}, {"type": "string", "minLength": 1, "maxLength": 4},
    {"type": "string", "maxLength": 0}, {"type": "string", "maxLength": 1},
    {"type": "string", "minLength": 0},
    {"type": "string", "minLength": -1}, {"type": "string", "minLength": "1"}, {"minLength": 3},
    {"type": "string", "minLength": 1.7, "maxLength": True}, {"type": "string", "maxLength": None},
    {"format": "uuid"}, {"type": "string", "format": "uuid4"}, {"type": "string", "format": "uuid6"},
    {"format": "date"}, {"format": "time"}, {"format": "date-time"}, {"format": "email"},
    {"type": "string", "format": "date", "minLength": 3}, {"type": "integer", "format": "date"},
    {"format": 5}, {"format": ""}, {"type": "string", "pattern": "^a$", "format": "date"},
    {"format": "date-string"}, {"type": "string", "format": "ipv4"}, {"pattern": 5},
    {"properties": {"u": {"format": "uuid"}, "v": {"format": "uuid1"}, "w": {"format": "uuid"}}},
    {"properties": {"d": {"format": "date"}, "t": {"format": "time"}, "b": {"format": "date-time"}}},
    # Numbers that only look bounded.
    {"type": "number", "minimum": 1}, {"minimum": 1}, {"type": "integer", "multipleOf": 2},
    {"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "exclusiveMaximum": 10},
    {"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 20},
    {"type": "integer", "minimum": 5, "exclusiveMinimum": 9},
    {"type": "integer", "exclusiveMinimum": 9223372036854775807}, {"type": "integer", "minimum": None},
    # Arrays.
    {"items": S}, {"type": "array", "items": N, "minItems": 2}, {"items": S, "maxItems": 0},
    {"items": S, "maxItems": 1}, {"items": S, "maxItems": 2}, {"items": S, "minItems": 1},
    {"items": S, "minItems": 1, "maxItems": 1}, {"items": S, "minItems": 3, "maxItems": 5},
    {"items": I, "minItems": 0, "maxItems": None},
    {"items": I, "maxItems": 2.0}, {"items": I, "maxItems": True}, {"items": I, "minItems": "2"},
    {"items": I, "minItems": -2}, {"items": [S, N]}, {"items": []}, {"prefixItems": [S, N, X]},
    {"prefixItems": [S], "items": N}, {"prefixItems": S}, {"type": "array", "items": {}},
    {"items": True}, {"items": {"items": {"items": I}}}, {"type": "array", "minItems": 3},
    {"type": "string", "items": S}, {"items": {"type": "integer", "minimum": -12, "maximum": 207},
                                     "minItems": 3, "maxItems": 5},
    # Objects.
    {"properties": {}}, {"properties": X}, {"type": "object", "properties": X, "required": ["x"]},
    {"properties": {"a": S, "b": S, "c": S}}, {"properties": {"a": S, "b": S}, "required": ["b"]},
    {"properties": {"a": S, "b": S, "c": S}, "required": ["a", "c", "zz", 5]},
    {"properties": {"b": S, "a": I, "c": N}, "required": ["a", "b", "c"], "additionalProperties": False},
    {"properties": X, "required": "x"}, {"properties": X, "required": None},
    {"additionalProperties": True}, {"additionalProperties": False}, {"additionalProperties": S},
    {"additionalProperties": {}}, {"additionalProperties": None}, {"additionalProperties": 1},
    {"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": N},
    {"type": "object", "additionalProperties": {"items": S}},
    {"properties": {"a": N}, "additionalProperties": S}, {"properties": {"a": N}, "additionalProperties": {}},
    {"properties": {"a": N}, "required": ["a"], "additionalProperties": True},
    {"properties": {"and": N, "also": N}, "required": ["and"], "additionalProperties": N},
    {"properties": {"a": N, "ab": N}, "additionalProperties": N},
    {"properties": {"": N}, "additionalProperties": N}, {"properties": {"": N, "b": I}},
    {"properties": {"été": N, "zz": N}, "additionalProperties": N}, {"properties": {"a b": S, "a-b": N}},
    {"properties": {"a b": S, "a-b": N, "a_b": I, "a.b": S}}, {"properties": {"*": S, "b": N}},
    {"properties": {"x": S, "x-kv": N, "x-rest": I, "y": S}}, {"properties": {"space": N, "root": S}},
    {"properties": {"string": N, "number": S, "char": I}}, {"properties": {"q\"x\\": S, "n\n": N}},
    {"properties": {"日本": {"properties": {"語": S}}}}, {"properties": {"a": True}},
    {"properties": {"a": False, "b": {"type": "nope"}}}, {"properties": []}, {"properties": [S, N]},
    {"properties": "x"}, {"properties": None}, {"properties": 5}, {"properties": {"a": None, "b": []}},
    {"properties": {"a": {"properties": {"b": {"properties": {"c": S}}}, "required": ["b"]}}},
    {"type": "object", "required": ["a"]}, {"type": "string", "properties": X},
    {"properties": {f"p{n}": I for n in range(12)}, "required": ["p3", "p7"]},
    {"properties": {"additional": S}, "additionalProperties": N},
    # One of several, all of several.
    {"anyOf": [S, N]}, {"oneOf": [S, {"type": "null"}]}, {"oneOf": [S], "anyOf": [N]}, {"anyOf": []},
    {"anyOf": [{"anyOf": [S, N]}, I]}, {"anyOf": S}, {"anyOf": "x"}, {"anyOf": None}, {"anyOf": [5]},
    {"properties": {"a": {"anyOf": [{"properties": X}, {"properties": {"y": N}}]}}},
    {"anyOf": [{"properties": X}, {"properties": X, "required": ["x"]}]}, {"type": "string", "anyOf": [N]},
    {"allOf": [{"properties": X}, {"properties": {"y": N}}]}, {"allOf": []}, {"allOf": [S]},
    {"allOf": [{"properties": X}, {"anyOf": [{"properties": {"y": N}}, {"properties": {"z": N}}]}]},
    {"allOf": [{"properties": X}, {"properties": X}]}, {"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]},
    {"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["c", "a"]}, {"enum": ["a", "c", "d"]}], "type": "string"},
    {"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, {"allOf": [{"enum": ["é", "z", "a", "B"]}]},
    {"allOf": [{"enum": ["a"]}, {"properties": X}]}, {"allOf": {"a": {"properties": X}}}, {"allOf": None},
    {"allOf": [{"$ref": "#/definitions/a"}, {"properties": {"d": S}}],
     "definitions": {"a": {"properties": {"k": N}}}},
    {"allOf": [{"allOf": [{"properties": X}]}]}, {"type": "array", "allOf": [{"properties": X}]},
    {"allOf": [{"properties": X}], "properties": {"y": N}},
    # References.
    {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"b": S}}}},
    {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"v": I, "next": {"$ref": "#/$defs/n"}}}}},
    {"properties": {"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "#/definitions/x"}},
     "definitions": {"x": S}},
    {"properties": {"a": {"$ref": "#/definitions/x y"}}, "definitions": {"x y": {"properties": X}}},
    {"properties": {"a": {"$ref": "#/definitions/x"}}}, {"$ref": "#"}, {"$ref": "#/"}, {"$ref": ""},
    {"$ref": "foo"}, {"$ref": "http://example.com/x.json"}, {"$ref": "https://example.com/x.json"},
    {"$ref": "https://example.com/x.json#"}, {"$ref": "https://example.com/x.json#/a"}, {"$ref": 5},
    {"$ref": None}, {"$ref": "#/anyOf/1", "anyOf": [S, N]}, {"$ref": "#/anyOf/7", "anyOf": [S, N]},
    {"$ref": "#/anyOf/x", "anyOf": [S, N]}, {"$ref": "#/anyOf/1x", "anyOf": [S, N]},
    {"$ref": "#/anyOf/-1", "anyOf": [S, N]}, {"$ref": "#/anyOf/99999999999999999999", "anyOf": [S]},
    {"$ref": "#/$defs/a~1b", "$defs": {"a/b": S}}, {"$ref": "#/$defs/a/b", "$defs": {"a/b": S}},
    {"anyOf": [{"$ref": "#/a"}, {"$ref": "#/b"}, {"$ref": "#/a"}], "a": S, "b": {"$ref": "#/a"}},
    {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}, {"properties": {"$ref": S}},
    {"properties": {"a": {"$ref": "#/x"}, "b": {"$ref": "#/y"}}},
    {"items": {"$ref": "#/$defs/t"}, "$defs": {"t": {"type": "object", "properties": {
        "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}, "name": S}, "required": ["name"]}}},
]  # fmt: skip


def schemas() -> list[Any]:
    """All of them, with a few hundred put together at random."""
    bounded = [
        {"type": "integer", **({} if low is None else {"minimum": low}),
         **({} if high is None else {"maximum": high})}
        for low, high in BOUNDS
    ]  # fmt: skip
    patterned = [{"type": "string", "pattern": pattern} for pattern in PATTERNS]
    named = [{"properties": {"p": {"pattern": p}}, "required": ["p"]} for p in PATTERNS[4:20]]
    chance = random.Random(5)
    return [*OTHERS, *bounded, *patterned, *named, *(any_schema(chance, 3) for _ in range(120))]


def any_schema(chance: random.Random, depth: int) -> Any:
    """A schema of the usual shapes; `depth` is how many more levels there may be."""
    kind = chance.choice("snibeu" if depth == 0 else "snibecuoooaatrm")
    names = ["id", "name", "tags", "size", "a b", "é", "kids", "x"]

    def inner() -> Any:
        return any_schema(chance, depth - 1)

    if kind == "s":
        extra = {"minLength": chance.randint(0, 3), "maxLength": chance.randint(3, 6)}
        return {"type": "string", **dict(chance.sample(list(extra.items()), chance.randint(0, 2)))}
    if kind == "i":
        low = chance.randint(-500, 500)
        bounds = {"minimum": low, "maximum": low + chance.randint(0, 3000)}
        return {"type": "integer", **dict(chance.sample(list(bounds.items()), chance.randint(0, 2)))}
    if kind == "e":
        return {"enum": chance.sample(["a", "b c", 1, 2.5, None, True, "é"], chance.randint(1, 4))}
    if kind == "c":
        return {"const": chance.choice(["x", 7, [1, 2], {"k": "v"}])}
    if kind == "u":
        return {"format": chance.choice(["uuid", "date", "time", "date-time"])}
    if kind == "o":
        listed = chance.sample(names, chance.randint(0, 5))
        schema: Any = {"type": "object", "properties": {name: inner() for name in listed}}
        if chance.random() < 0.7:
            schema["required"] = chance.sample(listed, chance.randint(0, len(listed)))
        if chance.random() < 0.5:
            schema["additionalProperties"] = chance.choice([True, False, {"type": "number"}])
        return schema
    if kind == "a":
        least = chance.randint(0, 3)
        bounds = {"minItems": least, "maxItems": least + chance.randint(0, 3)}
        some = dict(chance.sample(list(bounds.items()), chance.randint(0, 2)))
        return {"type": "array", "items": inner(), **some}
    if kind == "t":
        return {"prefixItems": [inner() for _ in range(chance.randint(1, 3))]}
    if kind == "r":
        return {chance.choice(["anyOf", "oneOf"]): [inner() for _ in range(chance.randint(1, 3))]}
    if kind == "m":
        return {"type": chance.sample(["string", "null", "number", "boolean"], 2)}
    return {"type": {"n": "number", "b": "boolean"}[kind]}


def ask(url: str, body: Any) -> Any:
    """POST `body`; the decoded answer."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return json.load(error)


def main() -> None:
    cases = []
    for schema in schemas():
        # null is no schema at all, so it's put where any schema may stand.
        given = {"properties": {"null": None}} if schema is None else schema
        body = {"prompt": "a", "n_predict": 1, "json_schema": given,
                "response_fields": ["generation_settings/grammar"]}  # fmt: skip
        reply = ask(sys.argv[1] + "/completion", body)
        if "error" in reply:
            cases.append({"schema": given, "error": reply["error"]["message"]})
        else:
            cases.append({"schema": given, "grammar": reply["generation_settings/grammar"]})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (Path(__file__).parent / "data/grammar/schemas.json").write_text(f"[\n{lines}\n]\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "refused")


if __name__ == "__main__":
    main()
