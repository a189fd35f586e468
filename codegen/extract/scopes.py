"""Which function a token belongs to, and under which conditions it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.extract.cpp import Source, spell

_BODYLESS = frozenset(("namespace", "extern"))
_TYPES = frozenset(("struct", "class", "union"))
_CONTROL = frozenset(("if", "for", "while", "switch", "catch", "return", "sizeof"))


@dataclass(frozen=True)
class Function:
    """A function, or a lambda that a member or a global is set to, with its body's span."""

    name: str
    start: int
    """The position of the body's opening brace."""
    end: int
    """The position of the body's closing brace."""
    header: int
    """The position of the first token of its declaration."""


def functions(source: Source) -> list[Function]:
    """Every function with a body, in source order; lambdas set to members come as their own."""
    found = list(_declared(source, 0, len(source), ""))
    inner = [lambda_ for function in found for lambda_ in _member_lambdas(source, function)]
    return sorted(found + inner, key=lambda function: function.start)


def owner(found: list[Function], index: int) -> Function | None:
    """The innermost of these functions around the token at `index`."""
    around = [function for function in found if function.start < index < function.end]
    return max(around, key=lambda function: function.start, default=None)


def _declared(source: Source, start: int, end: int, prefix: str) -> Iterator[Function]:
    begin = i = start
    while i < end:
        text = source[i].text
        if text == ";":
            begin = i + 1
        elif text in ("(", "["):
            i = source.close(i)
        elif text == ":" and source.text(i - 1) in ("public", "private", "protected"):
            begin = i + 1
        elif text == "{":
            close = source.close(i)
            words = [token.text for token in source.slice(begin, i)]
            if words and words[0] in _BODYLESS:
                yield from _declared(source, i + 1, close, prefix)
                begin = close + 1
            elif (name := _type_name(words)) is not None:
                yield from _declared(source, i + 1, close, f"{prefix}{name}::")
            elif (name := _lambda_name(words)) is not None:
                yield Function(prefix + name, i, close, begin)
            elif "enum" not in words[:2] and (name := _function_name(words)) is not None:
                if source.text(close + 1) in (",", "{"):
                    i = close + 1  # a member's initialiser before a constructor's body
                    continue
                yield Function(prefix + name, i, close, begin)
                begin = close + 1
            i = close
        i += 1


def _type_name(words: list[str]) -> str | None:
    """The name if the words declare a struct, class or union."""
    if "(" in words or "=" in words:
        return None
    for n, word in enumerate(words[:-1]):
        if word in _TYPES:
            return words[n + 1]
    return None


def _lambda_name(words: list[str]) -> str | None:
    """The name if the words set something to a lambda."""
    for n, word in enumerate(words):
        if word == "(":
            return None
        if word == "=" and n > 0:
            return words[n - 1] if words[n + 1 : n + 2] == ["["] else None
    return None


def _function_name(words: list[str]) -> str | None:
    """The name before the first parameter list."""
    depth = 0
    for n, word in enumerate(words):
        if word in ("[", "{"):
            depth += 1
        elif word in ("]", "}"):
            depth -= 1
        elif word == "=" and depth == 0 and words[n - 1] != "operator":
            return None
        elif word == "(" and depth == 0 and n > 0:
            first = n - 1
            if words[first] in _CONTROL:
                return None
            while first >= 2 and words[first - 1] == "::":
                first -= 2
                if words[first] == ">":  # a template's arguments
                    first = len(words[:first]) - words[:first][::-1].index("<") - 2
            return "".join(words[first:n])
    return None


def _member_lambdas(source: Source, function: Function) -> Iterator[Function]:
    """Lambdas that statements like `this->name = [...](...) {` set members to."""
    for i in source.find("=", "[", start=function.start, end=function.end):
        first = i - 1
        if source[first].kind != "id":
            continue
        if source.matches(first - 2, "this", "->"):
            first -= 2
        if source.text(first - 1) not in (";", "{", "}"):
            continue
        brace = source.close(i + 1) + 1
        if source.text(brace) == "(":
            brace = source.close(brace) + 1
        while source.text(brace) not in ("{", ";", ""):
            brace += 1
        if source.text(brace) == "{":
            yield Function(source.text(i - 1), brace, source.close(brace), first)


def conditions(source: Source, function: Function, index: int) -> list[str]:
    """What must hold inside `function` for the token at `index` to be reached, outermost first.

    A loop or any other block is spelt with its header, so that no block goes unnoticed.
    """
    blocks: list[int] = []
    i = function.start + 1
    while i < index:
        if source[i].text == "{":
            if source.close(i) > index:
                blocks.append(i)
            else:
                i = source.close(i)
        i += 1
    return [text for block in blocks for text in _block(source, block)]


def _block(source: Source, brace: int) -> list[str]:
    before = source.text(brace - 1)
    if before == "try":
        return []
    if before == "else":
        return _not(source, brace - 2)
    if before == ")":
        opening = source.open(brace - 1)
        word = source.text(opening - 1)
        text = spell(source.slice(opening + 1, brace - 1))
        if word == "if":
            earlier = _not(source, opening - 3) if source.text(opening - 2) == "else" else []
            return [*earlier, text]
        return [f"{word} ({text})"]
    return [f"{before} {{"]


def _not(source: Source, closing: int) -> list[str]:
    """The opposite of the condition whose block ends at `closing`."""
    if source.text(closing) != "}" or source.text(source.open(closing) - 1) != ")":
        return ["else {"]
    *others, last = _block(source, source.open(closing))
    return [*others, f"!({last})"]
