"""A parsed template: renders JSON variables to text."""

from collections.abc import Mapping
from typing import Any

from handlers.jinja.errors import LocatedError, TemplateError
from handlers.jinja.lexer import normalized, tokenize
from handlers.jinja.nodes import Scope, run_all
from handlers.jinja.parser import parse
from handlers.jinja.values import Value, from_json


class Program:
    """One template. `source` is its text with plain line ends and without the last one."""

    def __init__(self, source: str) -> None:
        """Raises TemplateError, with upstream's text, for a template that can't be parsed."""
        text = normalized(source)
        try:
            self._body = parse(tokenize(text), text)
        except RecursionError:
            raise TemplateError("the template is nested too deeply") from None
        self._text = text
        self.source = text.encode("latin-1").decode("utf-8", "surrogateescape")

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text; raises TemplateError with upstream's text."""
        given = {key: from_json(value) for key, value in variables.items()}
        return self.run(given).decode("utf-8", "surrogateescape")

    def run(self, variables: Mapping[str, Value], *, tracking: bool = False) -> bytes:
        """The text for values of templates; with `tracking`, tracked ones note their use."""
        # Keys become names, which have one character for each byte.
        names = {
            key.encode("utf-8", "surrogateescape").decode("latin-1"): value
            for key, value in variables.items()
        }
        source = "" if tracking else self._text
        scope = Scope(source, names, tracking=tracking)
        try:
            return run_all(self._body, scope)
        except TemplateError:
            raise
        except Exception as error:
            raise LocatedError(str(error)) from None
