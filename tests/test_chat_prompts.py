"""Chat bodies to prompts and errors, against the reference's recorded answers."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from generated.api_error import ApiError
from generated.jsontext import Json
from generated.options import Settings
from handlers.chat_body import ChatRequest, read_chat
from handlers.chat_template import CHATML, ChatTemplate
from tests.chat_cases import (
    BODIES,
    BOS,
    CONVERSATIONS,
    EOS,
    RECORDS,
    TEMPLATES,
    template_source,
)

_PROMPTS: dict[str, Any] = json.loads((RECORDS / "prompts.json").read_text())
_ANSWERS: dict[str, Any] = json.loads((RECORDS / "bodies.json").read_text())
_USER: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
_TOOL = {"type": "function", "function": {"name": "f"}}


@cache
def _template(name: str) -> ChatTemplate:
    return ChatTemplate(template_source(name), bos=BOS, eos=EOS)


def _read(body: Json, template: str = "plain", **settings: Any) -> ChatRequest:
    return read_chat(replace(Settings(), **settings), _template(template), body)


def _answer(body: Json, template: str) -> list[Any]:
    """Status and body, as /apply-template answers."""
    try:
        return [200, {"prompt": _read(body, template).body["prompt"]}]
    except ApiError as error:
        return [error.status, {"error": error.error}]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_conversation_becomes_the_recorded_prompt(template: str, conversation: str) -> None:
    recorded = _PROMPTS[template]["answers"][conversation]
    assert _answer(CONVERSATIONS[conversation], template) == recorded


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_answered_as_recorded(name: str) -> None:
    assert _answer(BODIES[name], "alternating") == _ANSWERS[name]


def test_without_prefill_an_answer_at_the_end_is_answered() -> None:
    body = {"messages": [*_USER["messages"], {"role": "assistant", "content": "So"}]}
    assert _read(body).body["prompt"] == "<user>x</user>\n<assistant>So"
    assert _read(body, prefill_assistant=False).body["prompt"] == (
        "<user>x</user>\n<assistant>So</assistant>\n<assistant>"
    )


def test_the_command_lines_variables_come_before_the_requests() -> None:
    given = {"default_template_kwargs": {"number": 1, "text": "a"}}
    body = _USER | {"chat_template_kwargs": {"text": "b"}}
    assert _read(body, "variables", **given).body["prompt"] == (
        'thinking=True\n[1, "b", null]\nuser: x\nassistant: '
    )


def test_reasoning_off_on_the_command_line_is_the_default_of_requests() -> None:
    off = {"enable_reasoning": False}
    asked = {"chat_template_kwargs": {"enable_thinking": True}}
    silent = "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert _read(_USER, "thinking", **off).body["prompt"] == silent
    assert _read(_USER | asked, "thinking", **off).body["prompt"] + "<think>\n\n</think>\n\n" == (
        silent
    )


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tools": [_TOOL]}, "tools"),
        ({"tools": [_TOOL], "tool_choice": "required"}, "tools"),
    ],
)
def test_what_is_not_served_yet_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as caught:
        _read(_USER | more)
    message = f"This server does not support '{field}' yet"
    assert (caught.value.status, caught.value.message) == (501, message)


def test_without_jinja_tools_are_refused_before_all_else() -> None:
    for more, name in (({"tools": [_TOOL]}, "tools"), ({"tool_choice": "none"}, "tool_choice")):
        with pytest.raises(ApiError) as caught:
            _read({"messages": 1} | more, use_jinja=False)
        assert (caught.value.status, caught.value.message) == (
            500,
            f"{name} param requires --jinja flag",
        )


def test_what_the_template_decides_cannot_be_overridden() -> None:
    body = _USER | {"prompt": "p", "generation_prompt": "g", "chat_format": 0, "n_predict": 3}
    made = _read(body | {"stop": "s", "logprobs": True, "top_logprobs": 2}, "thinking").body
    assert {key: made[key] for key in made if key not in body or key == "n_predict"} == {
        "stop": ["s"],
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": ["<think>", "</think>"],
        "message_delimiters": [
            {"role": "assistant", "delimiter": "<|im_start|>assistant"},
            {"role": "user", "delimiter": "<|im_start|>user"},
        ],
        "reasoning_budget_tokens": -1,
        "reasoning_budget_start_tag": "<think>",
        "reasoning_budget_end_tags": ["</think>"],
        "reasoning_budget_message": "",
        "reasoning_control": False,
        "n_probs": 2,
        "n_predict": 3,
        "logprobs": True,
        "top_logprobs": 2,
    }
    assert (made["chat_format"], made["generation_prompt"]) == (2, "<|im_start|>assistant\n")


def test_a_model_without_a_template_gets_chatml() -> None:
    for source in ("", "chatml"):
        template = ChatTemplate(source, bos=BOS, eos=EOS)
        assert template.source == CHATML
        assert read_chat(Settings(), template, _USER).body["prompt"] == (
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
        )


def test_the_template_for_tools_is_used_when_there_are_tools() -> None:
    template = ChatTemplate("plain", bos="", eos="", tool_use="{{ tools[0].function.name }}")
    body = _USER | {"tools": [_TOOL], "tool_choice": "none"}
    assert read_chat(Settings(), template, _USER).body["prompt"] == "plain"
    assert read_chat(Settings(), template, body).body["prompt"] == "f"
    alone = ChatTemplate("", bos="", eos="", tool_use="{{ messages[0].content }}")
    assert read_chat(Settings(), alone, _USER).body["prompt"] == "x"


def test_what_tokenizing_adds_is_taken_off_the_prompt() -> None:
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    template = ChatTemplate(source, bos="<s>", eos="</s>", add_bos=True, add_eos=True)
    assert read_chat(Settings(), template, _USER).body["prompt"] == "x"
    template = ChatTemplate(source, bos="<s>", eos="</s>")
    assert read_chat(Settings(), template, _USER).body["prompt"] == "<s>x</s>"


def test_dates_are_todays() -> None:
    template = ChatTemplate(
        "{{ date_string == strftime_now('%d %b %Y') and datetime == strftime_now('%b %d %Y') }}",
        bos="",
        eos="",
    )
    assert read_chat(Settings(), template, _USER).body["prompt"] == "True"


def test_without_chat_parsing_the_answer_is_content_alone() -> None:
    off = {"force_pure_content": True}
    request = _read(_USER, "thinking_opened", **off)
    assert request.body["prompt"] == "<|user|>x\n<|assistant|>[THINK]"
    assert "reasoning_budget_tokens" not in request.body
    output = request.new_output()
    output.finish("hm[/THINK]yes")
    assert output.message() == {"role": "assistant", "content": "hm[/THINK]yes"}


def test_the_servers_reasoning_format_is_the_requests_default() -> None:
    for format, content, reasoning in (("none", "[THINK]hm[/THINK]yes", ""), ("auto", "yes", "hm")):
        output = _read(_USER, "thinking_opened", reasoning_format=format).new_output()
        output.finish("hm[/THINK]yes")
        assert (output.content, output.reasoning_content) == (content, reasoning)
