"""Members of the structs that llama.cpp keeps its settings in, their types and initial values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codegen.extract.cpp import Source, Token, literal, spell
from codegen.extract.tree import Tree

HEADERS = ("common/*.h", "tools/server/*.h")
CONSTANTS = "include/llama.h"

Value = int | float | str | bool | list["Value"] | None

_QUALIFIERS = frozenset(("struct", "enum", "const", "mutable", "static", "constexpr", "inline"))
_LIMITS: dict[str, Value] = {
    "INT32_MAX": 2**31 - 1,
    "INT32_MIN": -(2**31),
    "UINT32_MAX": 2**32 - 1,
    "INT64_MAX": 2**63 - 1,
    "INT_MAX": 2**31 - 1,
    "std::numeric_limits<int32_t>::max()": 2**31 - 1,
    "std::numeric_limits<int64_t>::max()": 2**63 - 1,
    "std::numeric_limits<uint32_t>::max()": 2**32 - 1,
    "std::numeric_limits<float>::max()": 3.4028234663852886e38,
    "std::numeric_limits<float>::lowest()": -3.4028234663852886e38,
    "std::numeric_limits<float>::infinity()": "Infinity",
    "INFINITY": "Infinity",
    "true": True,
    "false": False,
}


@dataclass(frozen=True)
class Member:
    """A member's type and how it is initialised; `initial` is None without an initialiser."""

    type: str
    initial: str | None
    value: Value


class Structs:
    """The structs declared in a tree's headers, and the literal constants of llama.h."""

    def __init__(self, tree: Tree) -> None:
        self._members: dict[str, dict[str, Member]] = {}
        self._bases: dict[str, str] = {}
        self._constants = _defines(tree)
        for pattern in HEADERS:
            for path in tree.paths(pattern):
                self._read(tree.source(path).live)

    def member(self, root: str, path: list[str]) -> Member | None:
        """The member reached from a struct named `root` through `path`, or None."""
        member: Member | None = None
        for name in path:
            member = self._lookup(root, name)
            if member is None:
                return None
            root = member.type
        return member

    def value(self, tokens: tuple[Token, ...]) -> Value:
        """The value of an initialiser or bound, or None if it isn't a literal."""
        return evaluate(tokens, self._constants)

    def _lookup(self, struct: str, name: str) -> Member | None:
        found = self._members.get(struct, {}).get(name)
        if found is None and struct in self._bases:
            return self._lookup(self._bases[struct], name)
        return found

    def _read(self, source: Source) -> None:
        for i in source.find("struct"):
            if source.text(i - 1) in ("enum", "<", ","):
                continue
            name = source.text(i + 1)
            brace = i + 2
            while source.text(brace) not in ("{", ";", "(", ")", ""):
                brace += 1
            if source.text(brace) != "{" or source.text(i + 2) not in ("{", ":"):
                continue
            if source.text(i + 2) == ":":
                bases = [t.text for t in source.slice(i + 3, brace) if t.kind == "id"]
                self._bases.setdefault(name, bases[-1])
            body = self._body(source, brace)
            self._members.setdefault(name, body)

    def _body(self, source: Source, brace: int) -> dict[str, Member]:
        members: dict[str, Member] = {}
        end = source.close(brace)
        begin = i = brace + 1
        while i < end:
            text = source[i].text
            if text == ";":
                for name, member in self._declaration(source, begin, i).items():
                    members[name] = _follow(member, members)
                begin = i + 1
            elif text in ("(", "["):
                i = source.close(i)
            elif text == "{":
                words = [token.text for token in source.slice(begin, i)]
                i = source.close(i)
                is_method = "(" in words and "=" not in words[: words.index("(")]
                if is_method and source.text(i + 1) not in (";", ",", "{"):
                    begin = i + 1
            i += 1
        return members

    def _declaration(self, source: Source, begin: int, end: int) -> dict[str, Member]:
        parts = source.split(begin, end)
        # Commas between template arguments are no declarators: join until "<" and ">" balance.
        joined: list[tuple[int, int]] = []
        for start, stop in parts:
            if joined:
                before = [token.text for token in source.slice(joined[-1][0], joined[-1][1])]
                if before.count("<") > before.count(">"):
                    joined[-1] = (joined[-1][0], stop)
                    continue
            joined.append((start, stop))
        members: dict[str, Member] = {}
        type_ = ""
        for number, (start, stop) in enumerate(joined):
            head = start
            while head < stop and source[head].text not in ("=", "{", "(", "["):
                head += 1
            if source.text(head) == "(" or head == start:
                return members
            if number == 0:
                words = [t for t in source.slice(start, head - 1) if t.text not in _QUALIFIERS]
                type_ = spell(words)
                if not type_ or words[0].text in ("using", "typedef", "friend", "public"):
                    return members
            while source.text(head) == "[":
                head = source.close(head) + 1
            name = source.text(head - 1)
            if source.text(head - 1) == "]":
                name = source.text(source.open(head - 1) - 1)
                members[name] = Member(type_ + "[]", None, None)
                continue
            initial = source.slice(head + 1 if source.text(head) == "=" else head, stop)
            if initial:
                members[name] = Member(type_, spell(initial), self.value(initial))
            else:
                members[name] = Member(type_, None, _empty(type_))
        return members


def _follow(member: Member, earlier: dict[str, Member]) -> Member:
    """A member that starts as an earlier member's value has that value."""
    if member.value is None and member.initial in earlier:
        return Member(member.type, member.initial, earlier[member.initial].value)
    return member


def _empty(type_: str) -> Value:
    """What a member without initialiser holds, as far as its type decides that."""
    if type_ == "std::string":
        return ""
    if type_.startswith(("std::vector", "std::set", "std::list")):
        return []
    return None


def evaluate(tokens: tuple[Token, ...], constants: dict[str, Value] | None = None) -> Value:
    """The value of a literal, a known limit or constant, or a list of those; else None."""
    if not tokens:
        return None
    text = literal(tokens)
    if text is not None:
        return text
    if tokens[0].text == "{" and tokens[-1].text == "}":
        source = Source("", tokens)
        items: list[Value] = []
        for start, stop in source.split(1, len(tokens) - 1):
            item = evaluate(tokens[start:stop], constants)
            if item is None:
                return None
            items.append(item)
        return items
    if tokens[0].text == "-":
        positive = evaluate(tokens[1:], constants)
        if isinstance(positive, bool) or not isinstance(positive, int | float):
            return f"-{positive}" if positive == "Infinity" else None
        return -positive
    if len(tokens) == 1 and tokens[0].kind == "num":
        return number(tokens[0].text)
    spelling = spell(tokens)
    if spelling in _LIMITS:
        return _LIMITS[spelling]
    return (constants or {}).get(spelling)


def number(text: str) -> int | float | None:
    """The value of a C++ number; a float32 literal keeps its decimal spelling's value."""
    text = text.replace("'", "")
    if re.fullmatch(r"0[xX][0-9A-Fa-f]+[uUlLzZ]*", text):
        return int(text.rstrip("uUlLzZ"), 16)
    if re.fullmatch(r"\d+[uUlLzZ]*", text):
        digits = text.rstrip("uUlLzZ")
        return int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFlL]?", text):
        return float(text.rstrip("fFlL"))
    return None


def _defines(tree: Tree) -> dict[str, Value]:
    """The macros of llama.h that are one number."""
    try:
        text = (tree.root / CONSTANTS).read_text(encoding="utf-8")
    except OSError:
        return {}
    found: dict[str, Value] = {}
    line = re.compile(r"^#define[ \t]+(\w+)[ \t]+(\w+)[ \t]*(?://.*)?$", re.MULTILINE)
    for name, spelling in line.findall(text):
        value = number(spelling)
        if value is not None:
            found[name] = value
    return found
