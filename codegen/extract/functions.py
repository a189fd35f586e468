"""A fingerprint of each function's text, so that no change of behaviour goes unnoticed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from codegen.extract.cpp import Source, Token
from codegen.extract.scopes import Function, functions
from codegen.extract.tree import Tree

SERVER = ("tools/server/*.cpp", "tools/server/*.h")
FILES = (
    *SERVER,
    "common/*.cpp",
    "common/*.h",
    "common/*/*.cpp",
    "common/*/*.h",
    "src/llama-chat.cpp",
    "src/llama-grammar.cpp",
    "src/llama-sampler.cpp",
    "src/llama-vocab.cpp",
    "src/unicode.cpp",
)
"""The server, and what decides how it reads requests, formats chats, samples and parses output."""

REST = "(declarations)"
"""Everything in a file that stands in no function: members, constants, macros, parameters."""

_LOGS = re.compile(r"(SRV|SLT|QUE|RES|LOG|LLAMA_LOG|COM)_[A-Z]+|LOG")
_DECLARED = (("add", "(", "(", "new"), ("add", "(", "new"), ("add_opt", "(", "common_arg"))
"""Calls that declare a field or an option: those are read fact by fact elsewhere."""
_ADDS = frozenset(words[0] for words in _DECLARED)


def extract_functions(tree: Tree) -> dict[str, Any]:
    """`functions.json`: file → function → the first 16 digits of the SHA-256 of its tokens.

    Comments, layout and log lines don't count; functions of one name in a file count together.
    """
    files = {}
    paths = {pattern: tree.paths(pattern) for pattern in FILES}
    for pattern, found in paths.items():
        if not found and "*" not in pattern:
            tree.missing(pattern, "isn't there")
    for path in sorted({path for found in paths.values() for path in found}):
        source = tree.source(path)
        files[path] = {name: _hash(parts)[:16] for name, parts in _parts(source.live).items()}
        rest = [files[path][REST], *source.directives]
        files[path][REST] = _digest(rest)[:16]
    counts = {"files": len(files), "functions": sum(len(names) - 1 for names in files.values())}
    return {"counts": counts, "files": files}


def bodies_sha256(tree: Tree) -> dict[str, str]:
    """The fingerprints of the server's functions, by the last of their names."""
    found: dict[str, list[tuple[Token, ...]]] = {}
    for path in sorted({path for pattern in SERVER for path in tree.paths(pattern)}):
        for name, parts in _parts(tree.source(path).live).items():
            found.setdefault(name.split("::")[-1], []).extend(parts)
    return {name: _hash(parts) for name, parts in found.items()}


def text_sha256(source: Source, start: int, end: int) -> str:
    """The fingerprint of the tokens from `start` up to `end`."""
    return _hash([tuple(_counting(source, start, end))])


def uses(source: Source, start: int, end: int) -> list[str]:
    """What is called and which strings stand between two positions, each once, sorted."""
    tokens = list(_counting(source, start, end))
    calls = {
        f"{token.text}()"
        for token, after in pairwise(tokens)
        if token.kind == "id" and after.text == "(" and token.text not in ("if", "for", "while")
    }
    return sorted(calls) + sorted({token.text for token in tokens if token.kind == "str"})


def _parts(source: Source) -> dict[str, list[tuple[Token, ...]]]:
    """The tokens that count of each function, and those of none."""
    found = functions(source)
    parts: dict[str, list[tuple[Token, ...]]] = {REST: [tuple(_outside(source, found))]}
    for function in found:
        inside = [f for f in found if function.start < f.start and f.end < function.end]
        tokens = _counting(source, function.start, function.end, inside)
        parts.setdefault(function.name, []).append(tuple(tokens))
    return parts


def _outside(source: Source, found: list[Function]) -> Iterator[Token]:
    end = 0
    for function in sorted(found, key=lambda f: f.start):
        if function.start > end:
            yield from source.slice(end, function.start + 1)
        end = max(end, function.end)
    yield from source.slice(end, len(source))


def _counting(
    source: Source, start: int, end: int, without: Iterable[Function] = ()
) -> Iterator[Token]:
    """Tokens but for those of log calls, of declared fields and options, and of other functions."""
    skips = {function.start: function.end for function in without}
    i = start
    while i < end:
        if i in skips:
            i = skips[i]
        elif _is_log(source, i):
            i = source.close(i + 1) + source.matches(source.close(i + 1) + 1, ";")
        elif _declares(source, i):
            i = source.close(i + 1)
        else:
            yield source[i]
        i += 1


def _is_log(source: Source, i: int) -> bool:
    return source.text(i + 1) == "(" and bool(_LOGS.fullmatch(source.text(i)))


def _declares(source: Source, i: int) -> bool:
    return source.text(i) in _ADDS and any(source.matches(i, *words) for words in _DECLARED)


def _hash(parts: Iterable[Iterable[Token]]) -> str:
    return _digest(token.text for part in parts for token in part)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
