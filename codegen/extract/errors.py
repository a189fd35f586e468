"""Every kind of error, and the error texts that stand in the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codegen.extract.cpp import Source, Token, literal, spell
from codegen.extract.scopes import Function, functions, owner
from codegen.extract.tree import Tree

KINDS_IN = "tools/server/server-common.cpp"
FORMAT = "format_error_response"
PREFIX = "ERROR_TYPE_"
FILES = ("tools/server/*.cpp", "tools/server/*.h", "common/arg.cpp")

_EXCEPTIONS = frozenset(("invalid_argument", "runtime_error", "out_of_range", "logic_error"))
_CALLS = {"format_error_response": 0, "send_error": 1, "arg_removed": 0}
"""Functions that take an error text, and which argument it is."""


@dataclass(frozen=True)
class Text:
    """A text as a template: `{expression}` stands for what is filled in at run time."""

    how: str
    kind: str | None
    template: str | None
    expression: str | None
    status: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The facts that are there."""
        facts = {
            "how": self.how,
            "kind": self.kind,
            "status": self.status,
            "text": self.template,
            "expression": self.expression,
        }
        return {name: value for name, value in facts.items() if value is not None}


def extract_errors(tree: Tree) -> dict[str, Any]:
    """`errors.json`: the kinds, and file → function → texts in source order."""
    problems = len(tree.problems)
    kinds = _kinds(tree)
    complete = len(tree.problems) == problems
    names = {kind["name"] for kind in kinds}
    files = {}
    count = 0
    for path in sorted({path for pattern in FILES for path in tree.paths(pattern)}):
        source = tree.source(path).live
        found = functions(source)
        per_function: dict[str, dict[Text, None]] = {}
        for i, text in _texts(source, found):
            function = owner(found, i)
            kind = text.kind or ""
            if complete and kind.startswith(PREFIX) and kind not in names:
                tree.problem(source, i, f"unknown kind of error {text.kind}")
            name = function.name if function else ""
            if function and function.name not in _CALLS:
                per_function.setdefault(name, {}).setdefault(text)
        if per_function:
            files[path] = {
                name: [text.as_json() for text in texts] for name, texts in per_function.items()
            }
            count += sum(len(texts) for texts in per_function.values())
    return {"counts": {"kinds": len(kinds), "texts": count}, "kinds": kinds, "files": files}


def _kinds(tree: Tree) -> list[dict[str, Any]]:
    """The cases of format_error_response()."""
    source = tree.source(KINDS_IN).live
    function = next((f for f in functions(source) if f.name == FORMAT), None)
    if function is None:
        tree.missing(KINDS_IN, f"{FORMAT}() isn't there")
        return []
    kinds = []
    cases = list(source.find("case", start=function.start, end=function.end))
    for case, end in zip(cases, [*cases[1:], function.end], strict=True):
        facts: dict[str, str] = {}
        for i in source.find("=", start=case, end=end):
            facts.setdefault(
                source.text(i - 1), literal(source.slice(i + 1, i + 2)) or source.text(i + 1)
            )
        if set(facts) != {"type_str", "code"} or not facts["code"].isdigit():
            tree.problem(source, case, "unreadable kind of error")
            continue
        kind = {"name": source.text(case + 1), "type": facts["type_str"]}
        kinds.append({**kind, "status": int(facts["code"])})
    if not kinds:
        tree.missing(KINDS_IN, f"{FORMAT}() has no readable case")
    return kinds


def _texts(source: Source, found: list[Function]) -> Iterator[tuple[int, Text]]:
    for i, token in enumerate(source.tokens):
        if token.text == "throw":
            start = i + 3 if source.matches(i + 1, "std", "::") else i + 1
            name = source.text(start)
            if source.text(start + 1) == "(" and name in _EXCEPTIONS:
                span = (start + 2, source.close(start + 1))
                yield from _from_argument(source, found, i, f"throw {name}", None, span)
        elif token.text in _CALLS and source.text(i + 1) == "(":
            parts = source.split(i + 2, source.close(i + 1))
            position = _CALLS[token.text]
            if len(parts) <= position or source.text(parts[0][0]) == "const":
                continue
            kind = next(
                (source.text(a) for a, _ in parts if source.text(a).startswith(PREFIX)), None
            )
            span = parts[position]
            yield from _from_argument(source, found, i, token.text, kind, span)
        elif token.text == "{" and source[i + 1].value in ("message", "error"):
            parts = source.split(i + 1, source.close(i))
            if len(parts) == 2 and any(t.kind == "str" for t in source.slice(*parts[1])):
                if source.text(parts[1][0]) in ("{", "json", FORMAT):
                    continue
                template = _template(source.slice(*parts[1]))
                kind = literal(_sibling(source, i, "type"))
                code = spell(_sibling(source, i, "code"))
                status = int(code) if code.isdigit() else None
                how = f"{{{source[i + 1].text}, ...}}"
                yield i, Text(how, kind, template, None, status)


def _sibling(source: Source, brace: int, key: str) -> tuple[Token, ...]:
    """The value of `{"key", value}` that follows the pair whose brace is given."""
    i = source.close(brace) + 1
    while source.text(i) == "," and source.text(i + 1) == "{":
        if source[i + 2].value == key:
            return source.slice(i + 4, source.close(i + 1))
        i = source.close(i + 1) + 1
    return ()


def _from_argument(
    source: Source,
    found: list[Function],
    at: int,
    how: str,
    kind: str | None,
    span: tuple[int, int],
) -> Iterator[tuple[int, Text]]:
    """The text of an argument; for a variable, every text it is set to before in the function."""
    tokens = source.slice(*span)
    if any(token.kind == "str" for token in tokens):
        yield at, Text(how, kind, _template(tokens), None)
        return
    function = owner(found, at)
    name = tokens[0].text if tokens else ""
    if function is not None and len(tokens) == 1 and tokens[0].kind == "id":
        for i in source.find(name, start=function.start, end=at):
            if source.text(i + 1) in ("=", "+="):
                end = next(source.find(";", start=i))
                value = source.slice(i + 2, end)
                if any(token.kind == "str" for token in value):
                    yield at, Text(how, kind, _template(value), name)
    yield at, Text(how, kind, None, spell(tokens))


def _template(tokens: tuple[Token, ...]) -> str:
    """String literals as they are, everything between them as `{expression}`."""
    source = Source("", tokens)
    if source.matches(0, "std", "::", "string", "(") and source.close(3) == len(source) - 1:
        return _template(tokens[4:-1])
    if source.matches(0, "string_format", "(") and source.close(1) == len(source) - 1:
        first, *rest = source.split(2, len(source) - 1)
        format_ = literal(source.slice(*first))
        if format_ is not None:
            arguments = iter([spell(source.slice(*span)) for span in rest])
            return _fill(format_, arguments)
    out = ""
    for start, end in source.split(0, len(source), "+"):
        part = source.slice(start, end)
        inner = part
        if Source("", part).matches(0, "std", "::", "string", "(") and part[-1].text == ")":
            inner = part[4:-1]
        text = literal(inner)
        out += text if text is not None else "{" + spell(part) + "}"
    return out


def _fill(format_: str, arguments: Iterator[str]) -> str:
    """A printf format with its conversions replaced by the arguments they print."""
    out = ""
    i = 0
    while i < len(format_):
        if format_[i] != "%":
            out += format_[i]
            i += 1
            continue
        if format_[i + 1 : i + 2] == "%":
            out += "%"
            i += 2
            continue
        end = i + 1
        while end < len(format_) - 1 and not format_[end].isalpha():
            end += 1
        while format_[end] in "lzh" and end < len(format_) - 1:
            end += 1
        out += "{" + next(arguments, "?") + "}"
        i = end + 1
    return out
