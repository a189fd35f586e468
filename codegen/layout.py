"""Lays out generated Python within the line width: docstrings, calls and strings."""

import re
import textwrap
from collections.abc import Sequence

WIDTH = 100


def literal(value: object) -> str:
    """A Python literal, strings in double quotes unless only single ones need no escapes."""
    if not isinstance(value, str):
        return repr(value)
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', '\\"') + '"'


def escaped(text: str) -> str:
    """Text that is safe between three double quotes."""
    return text.replace("\\", "\\\\").replace('"""', "'''") + (" " if text.endswith('"') else "")


def docstring(text: str, indent: int = 0) -> str:
    """Text between three double quotes, over several lines if need be; the first has no indent."""
    safe = escaped(text)
    if indent + len(safe) + 6 <= WIDTH:
        return f'"""{safe}"""'
    return '"""' + f"\n{' ' * indent}".join(_wrapped(safe, indent)) + '"""'


def call(before: str, arguments: Sequence[str], after: str, indent: int = 0) -> str:
    """`before(arguments)after` on one line, or with the arguments on one, or with one on each.

    The first line has no indent, the template has written it. Keyword-only parameters never share
    a line of their own.
    """
    flat = ", ".join(arguments)
    broken = any("\n" in argument for argument in arguments)
    if not broken and indent + len(f"{before}({flat}){after}") <= WIDTH:
        return f"{before}({flat}){after}"
    inner, outer = " " * (indent + 4), " " * indent
    if not broken and len(inner + flat) <= WIDTH and "*" not in arguments:
        return f"{before}(\n{inner}{flat}\n{outer}){after}"
    rows = "".join(f"{inner}{argument},\n" for argument in arguments)
    return f"{before}(\n{rows}{outer}){after}"


def string(text: str, indent: int, *, braces: bool = False) -> str:
    """A string literal, in parts below each other if it is wider than what follows the indent.

    With `braces` each `{name}` in it is filled in.
    """
    if indent + len(_part(text, braces)) + 1 <= WIDTH:
        return _part(text, braces)
    parts = [""]
    for word in re.findall(r"\s*\S+", text) + re.findall(r"\s+$", text):
        if len(_part(parts[-1] + word, braces)) > WIDTH - indent - 1:
            parts.append("")
        parts[-1] += word
    return f"\n{' ' * indent}".join(_part(part, braces) for part in parts)


def _part(text: str, braces: bool) -> str:
    return ("f" if braces and "{" in text else "") + literal(text)


def _wrapped(text: str, indent: int) -> list[str]:
    """The lines of a docstring, each with room for the quotes."""
    lines = textwrap.wrap(text, WIDTH - indent - 6, break_on_hyphens=False, break_long_words=False)
    return [*lines[:-1], lines[-1] + (" " if text.endswith(" ") else "")]
