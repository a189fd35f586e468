"""The formats of `--no-jinja`, against the reference's recorded answers."""

import json
from dataclasses import replace
from typing import Any

import pytest

from generated.api_error import ApiError
from generated.options import Settings
from handlers.chat_body import read_chat
from handlers.chat_legacy import FORMATS, recognised
from handlers.chat_template import CHATML, ChatTemplate
from tests.chat_cases import LEGACY, RECORDS

_RECORDED: dict[str, Any] = json.loads((RECORDS / "legacy.json").read_text())
_SETTINGS = replace(Settings(), use_jinja=False)


@pytest.mark.parametrize("chat", LEGACY)
@pytest.mark.parametrize("name", _RECORDED)
def test_a_format_writes_the_recorded_prompt(name: str, chat: str) -> None:
    template = ChatTemplate(name, bos="", eos="")
    body = read_chat(_SETTINGS, template, LEGACY[chat]).body
    assert [200, {"prompt": body["prompt"]}] == _RECORDED[name][chat]


def test_every_format_that_has_a_name_is_recorded() -> None:
    assert set(_RECORDED) == FORMATS.keys() - {"dots1"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (CHATML, "chatml"),
        ("{{ '[INST] ' + content.strip() }}", "llama2-sys-strip"),
        ("{{ bos_token + '[INST] <<SYS>>' }}", "llama2-sys-bos"),
        ("[INST] <<SYS>>", "llama2-sys"),
        ("[INST]", "llama2"),
        ("[INST] [AVAILABLE_TOOLS]", "mistral-v3"),
        ("{{ ' [INST] ' + system_message }}", "mistral-v1"),
        ('[AVAILABLE_TOOLS]{{ "[INST]" }}', "mistral-v3-tekken"),
        ("[INST][SYSTEM_PROMPT]", "mistral-v7"),
        ("<|assistant|><|user|></s>", "falcon3"),
        ("<|endofuserprompt|>", "dots1"),
        ("<|im_start|>[INST]", "chatml"),
        ("dots1", ""),
        ("{{ messages }}", ""),
    ],
)
def test_a_template_is_recognised_by_its_texts(source: str, name: str) -> None:
    assert recognised(source) == name


def test_an_unknown_template_is_refused_and_an_answer_is_content_alone() -> None:
    with pytest.raises(ApiError) as caught:
        read_chat(_SETTINGS, ChatTemplate("x", bos="", eos=""), LEGACY["turns"])
    message = "this custom template is not supported, try using --jinja"
    assert (caught.value.status, caught.value.message) == (500, message)
    request = read_chat(_SETTINGS, ChatTemplate("chatml", bos="", eos=""), LEGACY["turns"])
    assert (request.body["chat_format"], request.body["generation_prompt"]) == (0, "")
    output = request.new_output()
    output.finish("<think>hm</think>yes")
    assert output.message() == {"role": "assistant", "content": "<think>hm</think>yes"}
