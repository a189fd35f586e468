"""JSON in and out against what llama-server answered: tests/data/json, made by its record.py."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.runtime.jsontext import JsonError, ParseError, dumps, loads

DATA = Path(__file__).parent / "data" / "json"


def recorded(name: str) -> list[Any]:
    rows: list[Any] = json.loads((DATA / name).read_text())
    return rows


def parse_fault(body: bytes) -> str | None:
    try:
        loads(body)
    except ParseError as error:
        return error.message
    return None


def test_every_recorded_body_is_taken_or_refused_with_upstreams_text() -> None:
    rows = recorded("parse.json")
    answers = [[body, parse_fault(body.encode("latin-1"))] for body, _ in rows]
    assert answers == rows


def test_strings_come_back_escaped_as_upstream_escapes_them() -> None:
    rows = recorded("strings.json")
    prompt = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    answers = [
        [literal, dumps({"prompt": prompt.format(loads(literal.encode()))})] for literal, _ in rows
    ]
    assert answers == rows


def test_whole_replies_are_written_as_they_were_read() -> None:
    replies = recorded("replies.json")
    assert [dumps(loads(reply.encode())) for reply in replies] == replies


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"-0", 0),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"18446744073709551616", 1.8446744073709552e19),
        (b"-9223372036854775809", -9.223372036854775808e18),
        (b"1" * 309, 1.1111111111111112e308),
        (b"1e-400", 0.0),
        (b"\xef\xbb\xbf18446744073709551615", 2**64 - 1),
        (b"\xef\xbb\xbf18446744073709551616", 1.8446744073709552e19),
        (b"\xef\xbb\xbf-9223372036854775808", -(2**63)),
        (b"\xef\xbb\xbf-9223372036854775809", -9.223372036854775808e18),
        (b"\xef\xbb\xbf[1]", [1]),
        (b"[1]\x00 and more", [1]),
        (b'\xef\xbb\xbf"\\ud83d\\ude00\\u0000\xc3\xa9"', "😀\x00é"),
        (b"\xef\xbb\xbf[-0, 5e-324, 1.0, true, false, null]", [0, 5e-324, 1.0, True, False, None]),
    ],
)
def test_values(body: bytes, value: object) -> None:
    read = loads(body)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])  # the mark keeps the fast way out
def test_a_repeated_key_keeps_its_first_place_and_last_value(mark: bytes) -> None:
    read = loads(mark + b'{"a":{"x":1},"b":2,"a":{"y":3}}')
    assert dumps(read) == '{"a":{"y":3},"b":2}'


def test_nesting_has_no_limit() -> None:
    for body in ("[" * 50_000 + "]" * 50_000, '{"a":[1,' * 5_000 + "2" + "]}" * 5_000):
        assert dumps(loads(body.encode())) == body


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (999999999999999.0, "999999999999999.0"),
        (1e15, "1e+15"),
        (1.5e15, "1.5e+15"),
        (123456789012345.6, "123456789012345.6"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (-1.7976931348623157e308, "-1.7976931348623157e+308"),
        (math.nan, "null"),
        (math.inf, "null"),
        (2**64 - 1, "18446744073709551615"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ((1, "a"), '[1,"a"]'),
        ({"a": [1, {"b": None}], "é/\x7f": "\x1b"}, '{"a":[1,{"b":null}],"é/\x7f":"\\u001b"}'),
        (b"a\xff\xe2\x82b\xed\xa0\x80", '"a\ufffd\ufffdb\ufffd\ufffd\ufffd"'),
        ("a\udcff\udce2\udc82b\ud800", '"a\ufffd\ufffdb\ufffd"'),
        ("\udcc3\udca9", '"é"'),
        ({"\udcff": 1}, '{"\ufffd":1}'),
    ],
)  # fmt: skip
def test_dumps(value: object, text: str) -> None:
    assert dumps(value) == text


# From the reference library: doubles for which Grisu2 is not the shortest or not the nearest text.
NOT_SHORTEST = [
    ("0x1.a9d51174d9349p+326", "2.2739306679504638e+98"),
    ("0x1.493813266dde4p+55", "4.6333461119037216e+16"),
    ("0x1.e7525680815b7p+432", "2.1112217523243535e+130"),
    ("0x1.8083be01f2d0fp+50", "1.6911131743219877e+15"),
    ("0x1.b213b9357265cp+54", "3.0545456519747952e+16"),
    ("0x1.ce1baac576e31p-262", "2.4358173963455176e-79"),
    ("0x1.571d4ebe6c68ap+704", "1.1280180057763159e+212"),
    ("0x1.4f889a3d766ecp-3", "0.16383476734227231"),
    ("-0x1.f674432932b74p+0", "-1.9627115226346321"),
    ("0x1.ca7d7a65cf559p-2", "0.44774428602598487"),
    ("-0x1.00cf1144f0a08p+1", "-2.0063191973324628"),
    ("-0x1.b4d7c3011405dp-1", "-0.8532086314026049"),
    ("-0x1.489dcd6f62862p-1", "-0.6418289373843999"),
    ("-0x1.56557866f4547p-1", "-0.6686208367993139"),
]


def test_doubles_get_grisu2s_digits() -> None:
    assert [dumps(float.fromhex(value)) for value, _ in NOT_SHORTEST] == [
        t for _, t in NOT_SHORTEST
    ]


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300, deadline=None)
def test_doubles_read_back(value: float) -> None:
    assert math.copysign(1, float(dumps(value))) == math.copysign(1, value)
    assert float(dumps(value)) == value


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES, st.booleans())
@settings(max_examples=200, deadline=None)
def test_written_values_read_back_on_both_ways(value: object, slowly: bool) -> None:
    text = dumps(value)
    assert loads((b"\xef\xbb\xbf" if slowly else b"") + text.encode()) == value
    assert json.loads(text) == value


@given(JSON_VALUES)
@settings(max_examples=300, deadline=None)
def test_what_holds_no_float_is_written_as_it_is_beside_one(value: object) -> None:
    assert dumps([0.5, value]) == f"[0.5,{dumps(value)}]"


@given(st.binary(max_size=24), st.sampled_from([b"", b'"', b'["', b'{"a":']))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_a_value_or_a_parse_error(body: bytes, start: bytes) -> None:
    try:
        loads(start + body)
    except ParseError as error:
        assert error.message.startswith("[json.exception.")


def test_what_has_no_json_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^set has no JSON text$"):
        dumps({"a": {1}})


def test_a_parse_error_is_a_json_error() -> None:
    with pytest.raises(JsonError) as caught:
        loads(b"{a")
    assert (
        caught.value.message
        == str(caught.value)
        == (
            "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while "
            "parsing object key - invalid literal; last read: '{a'; expected string literal"
        )
    )
