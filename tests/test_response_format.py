"""Chats that have to follow a JSON Schema: the grammar made of it, and the answer taken apart."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.gguf.file import read_gguf
from engine.sampling import Sampler
from engine.tokenizer import Tokenizer
from generated.api_error import ApiError
from generated.options import Settings
from generated.requests.completion import read_completion
from handlers.chat_body import read_chat
from handlers.chat_peg import Status
from handlers.chat_template import ChatTemplate
from handlers.completion import sampling_params
from handlers.grammars import begins_in_prompt
from handlers.json_text import json_value
from handlers.reading import CompletionReading
from tests.chat_cases import BOS, EOS, template_source
from tests.made_models import write
from tests.record_response_formats import MESSAGES, SCHEMA, TOOLS

RECORDED = json.loads((Path(__file__).parent / "data/grammar/response_formats.json").read_text())
GRAMMARS: list[str] = RECORDED["grammars"]
CASES = [case for case in RECORDED["cases"] if not case.get("lazy")]
DEEPSEEK = ("family_deepseek_v3_2", "family_deepseek_v4")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("made") / "llama.gguf"
    write("llama", path)
    return Tokenizer.from_gguf(read_gguf(path).metadata)


@cache
def template(name: str) -> ChatTemplate:
    return ChatTemplate(template_source(name), bos=BOS, eos=EOS)


def label(case: dict[str, Any]) -> str:
    return f"{case['template']} {json.dumps(case['body'])}"[:80]


@pytest.mark.parametrize("case", CASES, ids=label)
def test_as_recorded(tokenizer: Tokenizer, case: dict[str, Any]) -> None:
    settings = Settings()
    body = {"messages": MESSAGES, "max_tokens": 40, **case["body"]}
    try:
        request = read_chat(settings, template(case["template"]), body)
        read = read_completion(request.body, settings, CompletionReading(tokenizer, settings))
    except ApiError as error:
        assert error.error == case.get("error")
        return
    except ValueError as error:
        assert str(error) == case["error"]["message"]
        return
    begins = begins_in_prompt(request.body, by_default=False)
    params = sampling_params(read, grammar_begins_in_prompt=begins)
    try:
        Sampler(params, tokenizer.n_tokens, tokenizer)
    except ValueError as error:
        assert f"Failed to initialize samplers: {error}" == case["error"]["message"]
        return
    if "error" in case:
        assert case["error"]["message"].startswith("The model produced output that does not match")
        return
    assert request.body["prompt"] == case["prompt"]
    assert read.grammar == GRAMMARS[case["grammar"]]
    assert (read.grammar_lazy, list(read.grammar_triggers)) == (case["lazy"], case["triggers"])
    output = request.new_output()
    output.finish(case["text"])
    assert output.message() == case["message"]
    output = request.new_output()
    for char in case["text"]:
        output.add(char)
    output.finish("")
    assert output.message() == case["message"]


@pytest.mark.parametrize("name", DEEPSEEK)
def test_deepseek_refuses_a_schema_beside_tools(name: str) -> None:
    """Upstream then lets the schema be, for a grammar of tool calls."""
    body = {"messages": MESSAGES, "json_schema": SCHEMA, "tools": TOOLS, "tool_choice": "none"}
    with pytest.raises(ApiError) as caught:
        read_chat(Settings(), template(name), body)
    message = "This server does not support 'response_format' yet"
    assert (caught.value.status, caught.value.message) == (501, message)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "[ ]", "1 ", "-0.5e+7,", '"a\\n\\u00e9"', "true", "null",
     '{"a":[1,{"b":""}],"c":-1}', '[\n1 , "x\\"]" , [[]] ]', '{ "k" : false }'],
)  # fmt: skip
def test_json_in_an_answer(text: str) -> None:
    value = text.rstrip(" ,")
    whole = json_value(text + " ", 0)
    assert (whole.status, whole.end) == (Status.OK, len(value))
    for end in range(len(value)):
        assert json_value(value[:end], 0).status is Status.MORE, value[:end]


@pytest.mark.parametrize("text", ["x", "{1", '{"a",', "[1 2", '["a"x', "01", "[,", "tru ", '"\\x"'])
def test_what_is_no_json(text: str) -> None:
    assert json_value(text + " ", 0).status is Status.FAIL
