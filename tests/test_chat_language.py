"""The template language against the reference's recorded answers, and its caps and errors."""

import dataclasses
import json
from typing import Any

import pytest

from handlers.chat_template import ChatTemplate, TemplateFailed
from handlers.jinja.caps import find_caps
from handlers.jinja.errors import TemplateError
from handlers.jinja.program import Program
from tests.chat_cases import (
    BOS,
    BROKEN,
    EOS,
    RECORDS,
    SNIPPETS,
    TEMPLATES,
    snippets_source,
    template_source,
)

_LANGUAGE: dict[str, Any] = json.loads((RECORDS / "language.json").read_text())
_PROMPTS: dict[str, Any] = json.loads((RECORDS / "prompts.json").read_text())
_AUTOPARSER = (
    "Unable to generate parser for this template. Automatic parser generation failed: "
)


@pytest.fixture(scope="module")
def snippets() -> ChatTemplate:
    return ChatTemplate(snippets_source(), bos=BOS, eos=EOS)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_piece_renders_or_fails_as_recorded(snippets: ChatTemplate, snippet: str) -> None:
    status, answer = _LANGUAGE["rendered"][snippet]
    try:
        text = snippets.render(
            [{"role": "user", "content": "x"}],
            add_generation_prompt=True,
            extra={"snippet": SNIPPETS.index(snippet)},
        )
    except TemplateFailed as error:
        assert (400, answer["error"]["message"]) == (status, _AUTOPARSER + str(error))
    else:
        assert (200, answer) == (status, {"prompt": text})


@pytest.mark.parametrize("source", BROKEN)
def test_a_template_that_cannot_be_parsed_is_complained_about_as_recorded(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Program(source)
    assert str(caught.value) == _LANGUAGE["broken"][source]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_caps_are_those_recorded(name: str) -> None:
    caps = dataclasses.asdict(find_caps(Program(template_source(name))))
    assert list(caps.items()) == list(_PROMPTS[name]["caps"].items())


def test_a_broken_template_names_the_way_out_in_one_line() -> None:
    with pytest.raises(TemplateFailed) as caught:
        ChatTemplate("{{ x ? y }}", bos="", eos="")
    assert str(caught.value) == (
        "the chat template can't be parsed (lexer: unexpected character: ?): give another one"
        " with --chat-template or --chat-template-file, for example --chat-template chatml"
    )


def test_python_is_out_of_reach() -> None:
    template = Program("{{ ''.__class__ }}{{ messages.__class__ }}{{ range.__globals__ }}")
    with pytest.raises(TemplateError, match="Function has no builtins"):
        template.render({"messages": []})
    template = Program("{{ ''.__class__ }}{{ messages.__class__ }}{{ 1['__class__'] }}")
    assert template.render({"messages": []}) == ""


def test_a_template_nested_without_end_is_an_error() -> None:
    with pytest.raises(TemplateError):
        Program("{{ " + "(" * 100_000 + " }}")
    endless = Program("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
    with pytest.raises(TemplateError):
        endless.render({})


def test_line_ends_are_read_as_one_kind_and_the_last_is_dropped() -> None:
    template = Program("a\r\n{{ x }}\rb\n")
    assert template.source == "a\n{{ x }}\nb"
    assert template.render({"x": "\r\n"}) == "a\n\r\n\nb"
