"""Reading fields against what llama-server answered: tests/data/json, made by its record.py."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codegen.runtime import wire
from codegen.runtime.jsontext import JsonError, dumps, loads
from codegen.runtime.wire import INT32_MAX, INT64_MAX

DATA = Path(__file__).parent / "data" / "json"
FIELDS: dict[str, list[Any]] = json.loads((DATA / "fields.json").read_text())
SAMPLERS = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]  # noqa: E501  # fmt: skip
INF = float("inf")


def read_dry_base(body: object, name: str) -> float:
    value = wire.get_float32(wire.at(body, name))
    return 1.75 if value < 1 else value


def read_dry_sequence_breakers(body: object, name: str) -> list[str]:
    breakers: list[str] = wire.value_or(body, name, [], wire.get_list(wire.get_string))
    if not breakers:
        raise ValueError("Error: dry_sequence_breakers must be a non-empty array of strings")
    return breakers


def read_stop(body: object, name: str) -> list[str]:
    stop = wire.at(body, name)
    if isinstance(stop, list):
        return [wire.get_string(word) for word in stop if not wire.is_empty(word)]
    return [stop] if isinstance(stop, str) else []


def read_samplers(body: object, name: str) -> list[str]:
    samplers = wire.at(body, name)
    if isinstance(samplers, list):
        return [n for n in wire.get_list(wire.get_string)(samplers) if n in SAMPLERS]
    if isinstance(samplers, str):
        return [{"k": "top_k", "p": "top_p"}[c] for c in samplers if c in "kp"]
    return SAMPLERS


def read_preserved_tokens(body: object, name: str) -> list[int]:
    words = [wire.get_string(word) for word in wire.elements(wire.at(body, name))]
    return [{"7": 58, "a": 100}[word] for word in words if word]


def read_grammar_triggers(body: object, name: str) -> list[object]:
    triggers = wire.elements(wire.at(body, name))
    return [
        (wire.get_int32(wire.at(t, "type")), wire.get_string(wire.at(t, "value"))) for t in triggers
    ]


def read_lora(body: object, name: str) -> list[object]:
    lora = wire.at(body, name)
    if not isinstance(lora, list):
        raise ValueError("Error: 'lora' must be an array of objects with 'id' and 'scale' fields")
    return [
        {"id": wire.value_or(entry, "id", -1), "scale": wire.value_or(entry, "scale", 0.0)}
        for entry in lora
    ]


def read_reasoning_format(body: object, name: str) -> str:
    reasoning_format = wire.get_string(wire.at(body, name))
    if reasoning_format not in ("none", "auto", "deepseek", "deepseek-legacy"):
        raise ValueError(f"Unknown reasoning format: {reasoning_format}")
    return reasoning_format


def read_logit_bias(body: object, name: str) -> list[object]:
    """Enough of it for the recorded values: pairs of a token and a bias, or an object."""
    value = wire.at(body, name)
    pairs: list[Any] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        pairs = [pair for pair in value if isinstance(pair, list)]
    bans = {"a": 100, "5": 5}
    return [
        {
            "bias": -INF if bias is False else wire.get_float32(bias),
            "token": bans.get(token, token),
        }
        for token, bias in pairs
        if bias is not True
    ]


def read_response_fields(body: object, name: str) -> list[str]:
    return wire.value_or(body, name, [], wire.get_list(wire.get_string))


def read_chat_format(body: object) -> str:
    """Out of range is upstream's fault of a later stage, so it stands here without the field."""
    formats = ["Content-only", "peg-simple", "peg-native", "peg-gemma4"]
    number = wire.int32(body, "chat_format", default=0)
    if not 0 <= number < len(formats):
        raise wire.FieldError("Unknown chat format")
    return formats[number]


def include_usage(body: object) -> bool:
    options = wire.nested(body, "stream_options")
    return wire.boolean(options, "include_usage", default=False)


# Each field as a generated reader would read it.
READERS: dict[str, Callable[[object], object]] = {
    "n_keep": lambda b: wire.int32(b, "n_keep", default=0, reject=(-1, INT32_MAX)),
    "n_discard": lambda b: wire.int32(b, "n_discard", default=0, reject=(0, INT32_MAX)),
    "n_predict": lambda b: wire.int32(
        b, "n_predict", "max_completion_tokens", "max_tokens", default=-1, reject=(-1, INT32_MAX)
    ),
    "top_k": lambda b: wire.int32(b, "top_k", default=40, clamp=(0, INT32_MAX)),
    "mirostat": lambda b: wire.int32(b, "mirostat", default=0, clamp=(0, 2)),
    "n_cmpl": lambda b: wire.int32(b, "n_cmpl", "n", default=1, reject=(1, 2)),
    "repeat_last_n": lambda b: wire.int32(b, "repeat_last_n", default=64, reject=(0, INT32_MAX)),
    "sse_ping_interval": lambda b: wire.int32(
        b, "sse_ping_interval", default=30, reject=(-1, INT32_MAX)
    ),
    "reasoning_budget_tokens": lambda b: wire.int32(
        b, "reasoning_budget_tokens", default=-1, reject=(-1, INT32_MAX)
    ),
    "seed": lambda b: wire.uint32(b, "seed", default=4294967295),
    "t_max_predict_ms": lambda b: wire.int64(
        b, "t_max_predict_ms", default=-1, reject=(-1, INT64_MAX)
    ),
    "temperature": lambda b: wire.float32(
        b, "temperature", default=wire.f32(0.8), clamp=(0.0, INF)
    ),
    "top_p": lambda b: wire.float32(b, "top_p", default=wire.f32(0.95), clamp=(0.0, 1.0)),
    "min_p": lambda b: wire.float32(b, "min_p", default=wire.f32(0.05), clamp=(0.0, 1.0)),
    "top_n_sigma": lambda b: wire.float32(b, "top_n_sigma", default=-1.0),
    "typical_p": lambda b: wire.float32(b, "typical_p", default=1.0),
    "dynatemp_range": lambda b: wire.float32(b, "dynatemp_range", default=0.0),
    "adaptive_target": lambda b: wire.float32(
        b, "adaptive_target", default=-1.0, clamp=(-wire.FLOAT32_MAX, 1.0)
    ),
    "adaptive_decay": lambda b: wire.float32(
        b, "adaptive_decay", default=wire.f32(0.9), reject=(0.0, 0.99)
    ),
    "dry_base": lambda b: wire.custom(b, "dry_base", default=1.75, read=read_dry_base),
    "stream": lambda b: wire.boolean(b, "stream", default=False),
    "timings_per_token": lambda b: wire.boolean(b, "timings_per_token", default=False),
    "post_sampling_probs": lambda b: wire.boolean(b, "post_sampling_probs", default=False),
    "ignore_eos": lambda b: wire.boolean(b, "ignore_eos", default=False),
    "stream_options": include_usage,
    "generation_prompt": lambda b: wire.string(b, "generation_prompt", default=""),
    "dry_sequence_breakers": lambda b: wire.custom(
        b, "dry_sequence_breakers", default=["\n", ":", '"', "*"], read=read_dry_sequence_breakers
    ),
    "stop": lambda b: wire.custom(b, "stop", default=[], read=read_stop),
    "samplers": lambda b: wire.custom(b, "samplers", default=SAMPLERS, read=read_samplers),
    "preserved_tokens": lambda b: wire.custom(
        b, "preserved_tokens", default=[], read=read_preserved_tokens
    ),
    "grammar_triggers": lambda b: wire.custom(
        b, "grammar_triggers", default=[], read=read_grammar_triggers
    ),
    "reasoning_format": lambda b: wire.custom(
        b, "reasoning_format", default="deepseek", read=read_reasoning_format
    ),
    "logit_bias": lambda b: wire.custom(b, "logit_bias", default=[], read=read_logit_bias),
    "response_fields": lambda b: wire.custom(
        b, "response_fields", default=[], read=read_response_fields
    ),
    "chat_format": read_chat_format,
    "lora": lambda b: wire.custom(b, "lora", default=[], read=read_lora),
}
READERS["n"] = READERS["n_cmpl"]
READERS["max_tokens"] = READERS["n_predict"]
READERS["stream_options.include_usage"] = include_usage


def answer(name: str, value: str, show: bool) -> list[str | None]:
    text = f'{{"{name}":{value}}}'
    if name == "stream_options.include_usage":
        text = f'{{"stream_options":{{"include_usage":{value}}}}}'
    try:
        got = READERS[name](loads(text.encode()))
    except wire.FieldError as error:
        return [value, error.message, None]
    return [value, None, dumps(got) if show else None]


@pytest.mark.parametrize("name", FIELDS)
def test_field_values_and_errors_are_the_recorded_ones(name: str) -> None:
    rows = FIELDS[name][1:]
    assert [answer(name, value, shown is not None) for value, _, shown in rows] == rows


def completion(body: object) -> None:
    """The prompt, then the fields in the schema's order; the first fault is the answer."""
    wire.at(body, "prompt")
    for name in ("stream", "stream_options", "n_predict", "n_cmpl", "top_k", "adaptive_decay"):
        READERS[name](body)
    wire.int32(body, "n_probs", "logprobs", default=0)


def tokenize(body: object) -> None:
    if wire.contains(body, "content"):
        wire.value_or(body, "with_pieces", False)
        wire.get_string(wire.at(body, "content"))


def detokenize(body: object) -> None:
    if wire.contains(body, "tokens"):
        wire.get_list(wire.get_int32)(wire.at(body, "tokens"))


HANDLERS = {"/completion": completion, "/tokenize": tokenize, "/detokenize": detokenize}
HANDLERS["/v1/completions"] = completion
PROMPT_FAULT = '"prompt" elements must be'


def test_handlers_name_the_recorded_fault() -> None:
    rows = json.loads((DATA / "routes.json").read_text())
    rows = [row for row in rows if row[0] in HANDLERS and not row[3].startswith(PROMPT_FAULT)]
    answers = []
    for path, body, status, message in rows:
        try:
            HANDLERS[path](loads(body.encode("latin-1")))
        except (JsonError, wire.FieldError) as error:
            answers.append([path, body, status, error.message])
        else:
            answers.append([path, body, 200, message])
    assert answers == rows


def test_the_first_spelling_present_is_read_and_named() -> None:
    names = ("n_predict", "max_completion_tokens", "max_tokens")
    body = {"max_tokens": -5, "max_completion_tokens": -6, "n_predict": None}
    with pytest.raises(wire.FieldError) as caught:
        wire.int32(body, *names, default=-1, reject=(-1, INT32_MAX))
    assert (
        caught.value.message
        == str(caught.value)
        == (
            "Field 'max_completion_tokens': "
            "Value must be between -1 <= value <= 2147483647, but got -6"
        )
    )


@pytest.mark.parametrize("body", [[], ["n_predict"], "n_predict", 1, None, True])
def test_a_body_that_is_no_object_has_no_fields(body: object) -> None:
    assert wire.int32(body, "n_predict", default=7) == 7
    assert wire.json(body, "n_predict", default=7) == 7
    assert wire.nested(body, "n_predict") is None
    assert wire.value_or(body, "n_predict", 7) == 7
    assert not wire.contains(body, "n_predict")


def test_json_gives_the_value_as_it_stands() -> None:
    body = {"a": None, "b": {"c": [1, None]}}
    assert wire.json(body, "a", "b", default=0) == {"c": [1, None]}


def test_nested_passes_over_what_is_no_object() -> None:
    assert wire.nested({"a": "x", "b": {"c": 1}}, "a", "b") == {"c": 1}
    assert wire.nested({"a": None}, "a") is None


def test_faults_in_a_fields_own_reader_are_wrapped() -> None:
    def read(body: object, name: str) -> object:
        return wire.at(wire.at(body, name), "value")

    with pytest.raises(wire.FieldError) as caught:
        wire.custom({"x": {}}, "x", default=None, read=read)
    assert caught.value.message == (
        "Field 'x': [json.exception.out_of_range.403] key 'value' not found"
    )


@pytest.mark.parametrize(
    ("value", "key", "message"),
    [
        ({}, "prompt", "[json.exception.out_of_range.403] key 'prompt' not found"),
        ([], "prompt", "[json.exception.type_error.304] cannot use at() with array"),
        ("x", "prompt", "[json.exception.type_error.304] cannot use at() with string"),
        (1.5, "prompt", "[json.exception.type_error.304] cannot use at() with number"),
        (False, "prompt", "[json.exception.type_error.304] cannot use at() with boolean"),
        (None, "prompt", "[json.exception.type_error.304] cannot use at() with null"),
        ([1], 1, "[json.exception.out_of_range.401] array index 1 is out of range"),
        ({}, 0, "[json.exception.type_error.304] cannot use at() with object"),
    ],
)
def test_at_refuses(value: object, key: str | int, message: str) -> None:
    with pytest.raises(JsonError) as caught:
        wire.at(value, key)
    assert caught.value.message == message


def test_at_and_index_give_members() -> None:
    body: dict[str, object] = {"a": None, "b": [1, 2]}
    assert (wire.at(body, "a"), wire.at(body["b"], 1)) == (None, 2)
    assert wire.index(body, "b") == [1, 2]
    assert wire.index(None, "b") is None
    assert wire.index(body, "c") is None and list(body) == ["a", "b", "c"]
    with pytest.raises(JsonError) as caught:
        wire.index([], "a")
    assert caught.value.message == (
        "[json.exception.type_error.305] cannot use operator[] with a string argument with array"
    )


@pytest.mark.parametrize(
    ("value", "default", "got"),
    [
        (1, False, False),
        (True, False, True),
        ("yes", False, False),
        (None, True, True),
        (1.9, 5, 1),
        (True, 5, 1),
        ("1", 5, 5),
        (4294967295, 5, -1),
        (1, "a", "a"),
        ("b", "a", "b"),
        (0.1, 0.0, wire.f32(0.1)),
        (True, 0.5, 1.0),
        ("x", 0.5, 0.5),
        (1, {}, 1),
        ("x", [], "x"),
        (None, [], []),
        ([1], None, [1]),
    ],
)
def test_value_or(value: object, default: object, got: object) -> None:
    read = wire.value_or({"key": value}, "key", default)
    assert (read, type(read)) == (got, type(got))
    assert wire.value_or({}, "key", default) == default


def test_value_or_with_a_conversion() -> None:
    strings = wire.get_list(wire.get_string)
    assert wire.value_or({"a": ["x", "y"]}, "a", [], strings) == ["x", "y"]
    assert wire.value_or({"a": ["x", 1]}, "a", [], strings) == []
    assert wire.value_or({"a": "x"}, "a", ["d"], strings) == ["d"]


def test_loops_run_over_what_upstreams_loops_run_over() -> None:
    values = [None, [], {}, "", "a", 0, [None], {"k": 1}]
    assert [wire.elements(value) for value in values] == [
        [], [], [], [""], ["a"], [0], [None], [1]
    ]  # fmt: skip
    assert [wire.is_empty(value) for value in values] == [True] * 3 + [False] * 5


@pytest.mark.parametrize("get", [wire.get_int64, wire.get_double])
def test_the_64_bit_types_refuse_bools(get: Callable[[object], object]) -> None:
    with pytest.raises(JsonError) as caught:
        get(True)
    assert caught.value.message == (
        "[json.exception.type_error.302] type must be number, but is boolean"
    )


def test_integers_are_rounded_once_to_float32() -> None:
    assert wire.get_float32(9007199791611905) == 9007200328482816.0
    assert wire.get_float32(-9007199791611905) == -9007200328482816.0
    assert wire.get_float32(9223371761976868863) == 9223371487098961920.0
    assert wire.get_float32(2**64 - 1) == 2.0**64
    assert wire.get_double(2**63 + 1025) == 2.0**63 + 2048


def test_float_text() -> None:
    values = [1.5, -0.0, wire.FLOAT32_MAX, INF, -INF, 1e-7]
    assert [wire.to_string_float(value) for value in values] == [
        "1.500000", "-0.000000", "340282346638528859811704183484516925440.000000", "inf", "-inf",
        "0.000000",
    ]  # fmt: skip
