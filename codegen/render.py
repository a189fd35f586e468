"""Renders one template: strict about undefined names, dumb about everything else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from codegen import layout

_TEMPLATES = Path(__file__).parent / "templates"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        call=layout.call,
        doc=layout.docstring,
        docstring=layout.escaped,
        literal=layout.literal,
        lower_first=_lower_first,
        string=layout.string,
    )
    return environment


_ENVIRONMENT = _environment()


def render(template: str, context: Mapping[str, Any]) -> str:
    """The text of one output file."""
    return _ENVIRONMENT.get_template(template).render(context)
