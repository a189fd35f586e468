"""What goes wrong with a template, with llama.cpp's texts, which show the place in the source."""

_SHOWN = 40


class TemplateError(Exception):
    """A template that can't be parsed or rendered; the text has one character for each byte."""

    def __str__(self) -> str:
        text = str(self.args[0]) if self.args else ""
        return text.encode("latin-1", "replace").decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """The text as it was given."""
        return str(self.args[0]) if self.args else ""


class LocatedError(TemplateError):
    """A TemplateError that says already where it happened."""


class NotImplementedInTemplate(LocatedError):
    """Something of Jinja that upstream doesn't have either; shown without a place."""

    def __init__(self, message: str) -> None:
        super().__init__(f"NotImplemented: {message}")


def with_source(tag: str, message: str, source: str, pos: int) -> str:
    """A message and the place it is about."""
    return f"{tag}: {message}\n{peek_source(source, pos)}"


def located(node: str, message: str, source: str, pos: int) -> str:
    """A message about executing a node."""
    before = source[:pos]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return (
        f"\n------------\nWhile executing {node} at line {line}, column {column} in source:\n"
        f"{peek_source(source, pos)}\nError: {message}"
    )


def peek_source(source: str, pos: int) -> str:
    """The source around a place, and an arrow under it."""
    if not source:
        return "(no source available)"
    start = max(pos - _SHOWN, 0)
    arrow = "↵".encode().decode("latin-1")
    shown = source[start : min(pos + _SHOWN, len(source))].replace("\n", arrow)
    return f"...{shown}...\n{' ' * (pos - start + 3)}^"
