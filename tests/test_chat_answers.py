"""What becomes of an answer, plainly and piece by piece, against recorded replies."""

import json
from functools import cache
from typing import Any

import pytest

from generated.api_error import ApiError
from generated.options import Settings
from handlers.chat_body import ChatRequest, read_chat
from handlers.chat_output import ChatOutput, Delta
from handlers.chat_peg import choice, content, end, rest, seq
from handlers.chat_template import ChatTemplate
from tests.chat_cases import BOS, EOS, RECORDS, SPOKEN_ABOUT, TEMPLATES, compact, template_source

_SPOKEN: dict[str, Any] = json.loads((RECORDS / "spoken.json").read_text())
_FORMATS = {2: "peg-native", 3: "peg-gemma4", 4: "peg-minimax-m3"}
_CASES = [(template, chat) for template in TEMPLATES for chat in SPOKEN_ABOUT]


@cache
def _request(template: str, chat: str) -> ChatRequest:
    made = ChatTemplate(template_source(template), bos=BOS, eos=EOS)
    return read_chat(Settings(), made, SPOKEN_ABOUT[chat])


def _plain(output: ChatOutput, text: str) -> list[Any]:
    """Status and message, or the error."""
    try:
        output.finish(text)
    except ApiError as error:
        return [error.status, {"error": error.error}]
    return [200, output.message()]


def _streamed(output: ChatOutput, text: str) -> list[Any]:
    """The deltas of a stream with a frame for each character."""
    found: list[Any] = [{"role": "assistant", "content": None}]
    try:
        for character in text:
            found += [_delta(delta) for delta in output.add(character)]
        found += [_delta(delta) for delta in output.finish("")]
    except ApiError as error:
        return [*found, {"error": error.error}]
    return [*found, {}]


def _delta(delta: Delta) -> dict[str, str]:
    both = {"reasoning_content": delta.reasoning_content, "content": delta.content}
    return {key: text for key, text in both.items() if text}


@pytest.mark.parametrize(("template", "chat"), _CASES)
def test_an_answer_is_taken_apart_as_recorded(template: str, chat: str) -> None:
    request = _request(template, chat)
    for text, recorded in _SPOKEN[template][chat]["texts"].items():
        assert _plain(request.new_output(), text) == recorded["plain"], text
        assert compact(_streamed(request.new_output(), text)) == recorded["streamed"], text


@pytest.mark.parametrize(("template", "chat"), _CASES)
def test_the_settings_are_those_recorded(template: str, chat: str) -> None:
    if "settings" not in _SPOKEN[template][chat]:
        pytest.skip("nothing that was said fits the format")
    body = _request(template, chat).body
    shown = {
        "chat_format": _FORMATS[body["chat_format"]],
        "reasoning_format": body.get("reasoning_format", Settings().reasoning_format),
        "reasoning_in_content": False,
        "generation_prompt": body["generation_prompt"],
        "stop": body["stop"],
        "prompt": body["prompt"],
    }
    assert shown == _SPOKEN[template][chat]["settings"]


def test_a_stream_adds_up_to_the_plain_answer() -> None:
    for template, chat in _CASES:
        for text, recorded in _SPOKEN[template][chat]["texts"].items():
            if recorded["plain"][0] != 200 or any("error" in d for d in recorded["streamed"]):
                continue
            output = _request(template, chat).new_output()
            output.finish(text)
            streamed = _request(template, chat).new_output()
            for character in text:
                streamed.add(character)
            streamed.finish("")
            assert (streamed.content, streamed.reasoning_content) == (
                output.content,
                output.reasoning_content,
            )


def test_an_answer_that_takes_back_what_was_said_is_an_error() -> None:
    fickle = choice(seq(content("ab"), end), seq("a", content(rest)))
    output = ChatOutput(fickle, format_name="peg-native")
    assert output.add("ab") == [Delta(content="ab")]
    with pytest.raises(ApiError) as caught:
        output.add("c")
    message = "Invalid diff: 'ab' not found at start of 'bc'"
    assert (caught.value.status, caught.value.message) == (500, message)


def test_without_a_parser_everything_is_content() -> None:
    output = ChatOutput()
    assert output.add("<think>") == [Delta(content="<think>")]
    assert output.finish("") == []
    assert output.message() == {"role": "assistant", "content": "<think>"}
