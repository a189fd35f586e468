"""The names of an object's further properties: strings that are none of those it lists."""

from __future__ import annotations

from collections.abc import Iterable


class _Node:
    """The names that begin with the same bytes."""

    def __init__(self) -> None:
        self.children: dict[int, _Node] = {}
        self.is_name = False


def other_names(names: Iterable[str], char: str) -> str:
    """A rule's text for any JSON string but `names`; `char` is the rule of one character."""
    root = _Node()
    for name in names:
        node = root
        for byte in name.encode(errors="surrogateescape"):
            node = node.children.setdefault(byte, _Node())
        node.is_name = True
    parts = ['["] ( ']
    _write(root, parts, char)
    parts.append(f" ){'' if root.is_name else '?'} [\"]")
    return "".join(parts).encode("latin-1").decode(errors="surrogateescape")


def _write(node: _Node, parts: list[str], char: str) -> None:
    """The ways on from a node, one character for each byte; names are cut as the reference does."""
    passed = ""
    # The reference's bytes are signed, so those of characters beyond ASCII come first.
    for byte, child in sorted(node.children.items(), key=lambda entry: (entry[0] < 128, entry[0])):
        here = chr(byte)
        parts.append(f"{' | ' if passed else ''}[{here}]")
        passed += here
        if child.children:
            parts.append(" (")
            _write(child, parts, char)
            parts.append(")")
        elif child.is_name:
            parts.append(f" {char}+")
    if passed:
        parts.append(f' | [^"{passed}] {char}*')
