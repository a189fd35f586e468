"""A real model keeps to schemas and grammars over HTTP, several at a time."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import pytest

from codegen.capture.server import RunningServer
from tests.server import StartServer

NAME = {"type": "string", "minLength": 1, "maxLength": 12}
COUNT = {"type": "integer", "minimum": 0, "maximum": 200}
SCHEMAS: dict[str, dict[str, Any]] = {
    "A person": {"type": "object", "properties": {"name": NAME, "age": COUNT},
                 "required": ["name", "age"]},
    "Three colours": {"type": "array", "items": NAME, "minItems": 3, "maxItems": 3},
    "A mood": {"enum": ["happy", "sad", "bored"]},
    "The date of today": {"type": "string", "format": "date"},
    "A price": {"type": "object", "properties": {"amount": COUNT, "unit": {"enum": ["EUR", "USD"]}},
                "required": ["amount", "unit"], "additionalProperties": False},
    "Yes or no": {"type": "boolean"},
    "A phone number": {"type": "string", "pattern": "^[0-9]{3}-[0-9]{4}$"},
    "A point": {"type": "array", "prefixItems": [COUNT, COUNT], "minItems": 2, "maxItems": 2},
    "A tree": {"$ref": "#/$defs/t", "$defs": {"t": {
        "type": "object", "properties": {
            "size": COUNT, "kids": {"type": "array", "maxItems": 2, "items": {"type": "null"}}},
        "required": ["size", "kids"], "additionalProperties": False}}},
    "Something or nothing": {"anyOf": [{"type": "null"}, {"const": "something"}]},
    "Below zero": {"type": "integer", "minimum": -9, "maximum": -1},
    "All of two": {"allOf": [
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": COUNT}, "required": ["b"]}]},
}  # fmt: skip


@pytest.fixture(scope="module")
def server(start_server: StartServer) -> RunningServer:
    """A server with the real model and room for four texts at once."""
    return start_server("-c", "2048", "-np", "4", model="smollm2")


def test_json_by_schema(server: RunningServer) -> None:
    def asked(entry: tuple[int, tuple[str, dict[str, Any]]]) -> tuple[str, str]:
        number, (subject, schema) = entry
        question = f"{subject}, as JSON:"
        body: dict[str, Any] = {"temperature": 0.7, "seed": number, "max_tokens": 100}
        if number % 2:
            body |= {"prompt": question, "json_schema": schema}
            reply = httpx.post(f"{server.url}/completion", json=body, timeout=120).json()
            return reply["content"], reply["stop_type"]
        wrapped = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body |= {"messages": [{"role": "user", "content": question}], "response_format": wrapped}
        url = f"{server.url}/v1/chat/completions"
        choice = httpx.post(url, json=body, timeout=120).json()["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(asked, enumerate(SCHEMAS.items())))
    for (text, ending), schema in zip(answers, SCHEMAS.values(), strict=True):
        jsonschema.validate(json.loads(text), schema)
        assert ending in ("eos", "stop"), text


def test_a_lazy_grammar_begins_at_its_trigger(server: RunningServer) -> None:
    body = {
        "prompt": "Numbers in words: one, two, three, four, five,",
        "temperature": 0,
        "n_predict": 24,
        "grammar": 'root ::= " six" "!"{3}',
        "grammar_lazy": True,
        "grammar_triggers": [{"type": 2, "value": " s[i]x"}],
    }
    reply = httpx.post(f"{server.url}/completion", json=body, timeout=120).json()
    assert (reply["content"], reply["stop_type"]) == (" six!!!", "eos")
