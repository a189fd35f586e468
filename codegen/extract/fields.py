"""The request fields of the declarative completion schema, in the order they are evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from codegen.extract.cpp import Source, Token, literal, spell
from codegen.extract.functions import text_sha256, uses
from codegen.extract.reads import reads
from codegen.extract.scopes import Function, conditions, functions
from codegen.extract.structs import Structs
from codegen.extract.tree import Tree

SCHEMA = "tools/server/server-schema.cpp"
ELSEWHERE = "tools/server/*.cpp"

WIRES = {
    "bool": "bool",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "uint16_t": "uint16",
    "size_t": "uint64",
}
KINDS = {
    "field_num": None,
    "field_bool": None,
    "field_str": "string",
    "field_json": "json",
    "field_nested": "nested",
}
_BOUND_KINDS = frozenset(("field_num", "field_bool"))


@dataclass
class Field:
    """One field as declared; `default` and types are resolved after the chain is read."""

    kind: str
    names: list[str]
    member: list[str] | None
    compiled_out: bool
    limits: dict[str, Any] | None = None
    handler: tuple[int, int] | None = None
    description: str | None = None
    subfields: list[Field] = field(default_factory=list)


def extract_fields(tree: Tree, structs: Structs) -> dict[str, Any]:
    """`fields.json`; everything that isn't understood becomes a problem of the tree."""
    return _Reader(tree, structs).document()


class _Reader:
    def __init__(self, tree: Tree, structs: Structs) -> None:
        self.tree = tree
        self.structs = structs
        self.source = tree.source(SCHEMA)
        self.functions = functions(self.source.live)
        self.roots: dict[str, str] = {}
        self.server: dict[str, str] = {}
        self.seen: set[int] = set()

    def document(self) -> dict[str, Any]:
        source = self.source
        schema = self._schema_function()
        entries: list[Field] = []
        if schema is not None:
            self.roots = self._parameters(schema)
            self.server = self._server_defaults()
            for i in source.find("add", "(", start=schema.start, end=schema.end):
                if source.text(i - 1) in (".", "->"):
                    continue
                entry = self._added(i)
                if entry is not None:
                    entries.append(entry)
                    self._check_reached(schema, i)
        if schema is not None:
            self._check_all_read()
        live = sum(not entry.compiled_out for entry in entries)
        subfields = sum(len(entry.subfields) for entry in entries)
        return {
            "source": SCHEMA,
            "function": schema.name if schema else None,
            "counts": {
                "live": live,
                "subfields": subfields,
                "compiled_out": len(entries) - live,
                "native_fields": len(entries) + subfields,
                "native_fields_is": "live + subfields + compiled_out",
            },
            "fields": [self._json(entry, n) for n, entry in enumerate(entries)],
        }

    def _check_all_read(self) -> None:
        """No field is made outside the schema, nor in another file."""
        for path in self.tree.paths(ELSEWHERE):
            source = self.tree.source(path)
            for i in source.find("new"):
                read = path == SCHEMA and i in self.seen
                if source.text(i + 1).startswith("field_") and not read:
                    self.tree.problem(source, i, "a field is made where none is expected")

    def _schema_function(self) -> Function | None:
        """The function in which fields are added, in positions that count compiled-out tokens."""
        owners = {}
        for function in full_functions(self.source):
            if any(self.source.find("new", "field_num", start=function.start, end=function.end)):
                owners[function.name] = function
        if len(owners) != 1:
            names = ", ".join(owners) or "none"
            self.tree.missing(SCHEMA, f"one function that makes fields is expected, found {names}")
            return None
        return next(iter(owners.values()))

    def _parameters(self, function: Function) -> dict[str, str]:
        """Parameter names and the structs they refer to."""
        source = self.source
        opening = next(source.find("(", start=function.header, end=function.start))
        roots = {}
        for start, end in source.split(opening + 1, source.close(opening)):
            words = [t.text for t in source.slice(start, end) if t.text not in ("const", "&")]
            if len(words) == 2:
                roots[words[1]] = words[0]
        return roots

    def _server_defaults(self) -> dict[str, str]:
        """Members that take their default from the server's settings: member → expression."""
        live = self.source.live
        found: dict[str, str] = {}
        for function in functions(live):
            for i in live.find("params", ".", start=function.start, end=function.end):
                if live.text(i - 1) not in (";", "{", "}"):
                    continue
                equals = i
                while live.text(equals) not in ("=", ";", "(", ""):
                    equals += 1
                end = next(live.find(";", start=equals))
                if live.text(equals) != "=":
                    continue
                value = live.slice(equals + 1, end)
                if value and value[0].text == "params_base":
                    found[spell(live.slice(i + 2, equals))] = spell(value)
        return found

    def _check_reached(self, schema: Function, i: int) -> None:
        """A field is always declared: no `if` stands around it."""
        if conditions(self.source, schema, i):
            self.tree.problem(self.source, i, "a field is added under a condition")

    def _added(self, i: int) -> Field | None:
        """The field of `add((new ...)->...);`, where `i` is at `add`."""
        source = self.source
        if not (source.matches(i + 1, "(", "(", "new") or source.matches(i + 1, "(", "new")):
            self.tree.problem(source, i, "add() of something that is no new field")
            return None
        start = i + 2
        entry, after = self._field(start)
        if entry is None:
            return None
        if source.text(after) == ")":
            after += 1
        elif not entry.compiled_out:
            self.tree.problem(source, after, "')' is expected at the end of a field")
        if source.text(after) != ";":
            self.tree.problem(source, after, "';' is expected at the end of a field")
        return entry

    def _field(self, i: int) -> tuple[Field | None, int]:
        """The field that starts at `i` with `(new` or `new`, and where its chain of calls ends."""
        source = self.source
        wrapped = source.text(i) == "("
        new = i + 1 if wrapped else i
        if source.text(new) != "new":
            self.tree.problem(source, i, "a new field is expected")
            return None, i
        self.seen.add(new)
        kind = source.text(new + 1)
        opening = new + 2
        if source.text(opening) == "<":
            opening = next(source.find("(", start=opening))
        if kind not in KINDS or source.text(opening) != "(":
            self.tree.problem(source, new, "unknown kind of field")
            return None, opening
        close = source.close(opening)
        arguments = [source.slice(*span) for span in source.split(opening + 1, close)]
        name = literal(arguments[0]) if arguments else None
        if name is None or len(arguments) != (2 if kind in _BOUND_KINDS else 1):
            self.tree.problem(source, new, f"unreadable arguments of {kind}")
            return None, close + 1
        member = self._member(new, arguments[1]) if len(arguments) == 2 else None
        entry = Field(kind, [name], member, source[new].off)
        after = close + 1
        if wrapped:
            if source.text(after) != ")":
                self.tree.problem(source, after, "')' is expected after a new field")
            after += 1
        while source.text(after) == "->":
            after = self._method(entry, after + 1)
        return entry, after

    def _member(self, at: int, tokens: tuple[Token, ...]) -> list[str] | None:
        """The path of a member, starting with the parameter it belongs to."""
        names = [token.text for token in tokens[::2]]
        dots = [token.text for token in tokens[1::2]]
        if any(dot != "." for dot in dots) or not all(t.kind == "id" for t in tokens[::2]):
            self.tree.problem(self.source, at, f"unreadable member {spell(tokens)!r}")
            return None
        return names

    def _method(self, entry: Field, i: int) -> int:
        """Apply the method call at `i` to `entry`; where the call ends."""
        source = self.source
        name = source.text(i)
        if source.text(i + 1) != "(" or not source.closes(i + 1):
            self.tree.problem(source, i, f"unreadable call in field {entry.names[0]!r}")
            return i + 1
        close = source.close(i + 1)
        spans = source.split(i + 2, close)
        arguments = [source.slice(*span) for span in spans]
        if name == "set_desc":
            entry.description = literal(arguments[0]) if len(arguments) == 1 else None
            if entry.description is None:
                self.tree.problem(source, i, f"unreadable description of {entry.names[0]!r}")
        elif name == "add_alias":
            alias = literal(arguments[0]) if len(arguments) == 1 else None
            if alias is None:
                self.tree.problem(source, i, f"unreadable alias of {entry.names[0]!r}")
            else:
                entry.names.append(alias)
        elif name in ("set_limits", "set_hard_limits") and len(arguments) == 2:
            entry.limits = self._limits("hard" if name == "set_hard_limits" else "soft", arguments)
        elif name == "set_handler":
            entry.handler = (i + 2, close)
        elif name == "add_subfield":
            subfield, _ = self._field(i + 2)
            if subfield is not None:
                entry.subfields.append(subfield)
        else:
            self.tree.problem(source, i, f"unknown method in field {entry.names[0]!r}")
        return close + 1

    def _limits(self, kind: str, bounds: list[tuple[Token, ...]]) -> dict[str, Any]:
        low, high = bounds
        return {
            "kind": kind,
            "min": spell(low),
            "max": spell(high),
            "min_value": self.structs.value(low),
            "max_value": self.structs.value(high),
        }

    def _json(self, entry: Field, order: int) -> dict[str, Any]:
        source = self.source
        read = reads(source, *entry.handler) if entry.handler else []
        handler = [one.as_json() for one in read]
        result: dict[str, Any] = {
            "name": entry.names[0],
            "aliases": entry.names[1:],
            "order": order,
            "kind": entry.kind,
            **self._binding(entry),
            "limits": entry.limits,
            "custom_handler": entry.handler is not None,
        }
        if handler:
            result["handler_reads"] = handler
        if entry.handler:
            result["handler_uses"] = uses(source, *entry.handler)
            result["handler_text_sha256"] = text_sha256(source, *entry.handler)
        if entry.subfields:
            result["subfields"] = [self._json(one, n) for n, one in enumerate(entry.subfields)]
        result["compiled_out"] = entry.compiled_out
        result["description_sha256"] = sha256(entry.description)
        return result

    def _binding(self, entry: Field) -> dict[str, Any]:
        wire = KINDS[entry.kind]
        if entry.member is None:
            return {"wire": wire, "member": None, "type": None, "default": None}
        root, *path = entry.member
        member = self.structs.member(self.roots.get(root, ""), path)
        name = ".".join(entry.member)
        if member is None or member.type not in WIRES:
            where = "isn't declared" if member is None else f"has unknown type {member.type!r}"
            self.tree.missing(SCHEMA, f"field {entry.names[0]!r}: {name} {where}")
            return {"wire": wire, "member": name, "type": None, "default": None}
        return {
            "wire": WIRES[member.type],
            "member": name,
            "type": member.type,
            "default": self._default(path, member.initial, member.value),
        }

    def _default(self, path: list[str], initial: str | None, value: object) -> dict[str, Any]:
        """The initial value, or where in the server's settings it comes from and that one's."""
        for length in range(len(path), 0, -1):
            origin = self.server.get(".".join(path[:length]))
            if origin is None:
                continue
            expression = ".".join([origin, *path[length:]])
            _, *server_path = expression.split(".")
            member = self.structs.member(self.roots.get("params_base", ""), server_path)
            return {
                "server": expression,
                "initial": member.initial if member else initial,
                "value": member.value if member else value,
            }
        return {"server": None, "initial": initial, "value": value}


def full_functions(source: Source) -> Iterator[Function]:
    """Functions in positions that count compiled-out tokens too."""
    live = source.live
    positions = [n for n, token in enumerate(source.tokens) if not token.off]
    for function in functions(live):
        yield Function(
            function.name,
            positions[function.start],
            positions[function.end],
            positions[function.header],
        )


def sha256(text: str | None) -> str | None:
    """A description's fingerprint: says that it changed without repeating it."""
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
