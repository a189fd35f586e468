"""Record how a running llama-server reads and writes JSON, for test_jsontext and test_wire.

    python tests/data/json/record.py http://127.0.0.1:8080

The server needs a small model with an alias and two slots (-np 2). Bodies stand in the data
files as Latin-1 text, one character a byte.
"""

import json
import random
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

MALFORMED = [
    b"", b" ", b"\n", b"\n\n", b"\t \r\n", b"\x00", b"\x00\x00", b" \x00", b"{", b"[", b"}", b"]",
    b":", b",", b'"', b"'", b"a", b"t", b"tr", b"trux", b"tru\n", b"true", b"truefalse", b"f",
    b"fals", b"falsx", b"n", b"nul", b"nulx", b"null", b"nullnull", b"None", b"NaN", b"Infinity",
    b"-Infinity", b"undefined", b"//", b"/* */ {}", b"{} // x", b"{} {}", b"{}}", b"{}]", b"{},",
    b"{}\x00", b"{}\x00garbage", b'{"a":1\x00}', b"[1\x00]", b"{}1\n", b"{a", b"{a:1}", b"{1:2}",
    b"{1\n:2}", b"{1e999:2}", b"{null:1}", b"{true", b"{[", b"{{", b"{,", b"{:", b"{]", b"{ ",
    b"{\n", b'{"a', b'{"a"', b'{"a" ', b'{"a"1', b'{"a" 1\n', b'{"a"}', b'{"a",', b'{"a"x',
    b'{"a"{', b'{"a"["', b'{"a"]', b'{"a"true', b'{"a":', b'{"a": ', b'{"a":}', b'{"a":,',
    b'{"a"::', b'{"a":]', b'{"a":x', b'{"a":\nx', b'{"a":1', b'{"a":1 ', b'{"a":1]', b'{"a":1:',
    b'{"a":1 2', b'{"a":1\n2', b'{"a":1"b"', b'{"a":1 x', b'{"a":1,', b'{"a":1,}', b'{"a":1,,',
    b'{"a":1,2', b'{"a":1,b', b'{"a":1,"b"', b'{"a":1,"b"}', b'{"a":1,"b":', b'{"a":1,"b":}',
    b'{"a":{"b":[1,{"c":nul}]}}', b"[1", b"[1 ", b"[1}", b"[1:", b"[1 2", b"[1\n2]", b"[1,",
    b"[1,]", b"[,", b"[,1]", b"[:", b"[1,\n\n x]", b"[[", b"[[]", b"[[],", b"[{]", b"[true", b"[x",
    b"[-", b"[-]", b"[-x", b"[--1", b"[+1]", b"[01]", b"[-01]", b"[00]", b"[.5]", b"[1.]", b"[1.",
    b"[1.x", b"[1..2]", b"[1.5.5]", b"[1e]", b"[1e", b"[1E+]", b"[1e+", b"[1e-x", b"[1ee5]",
    b"[1e5.5]", b"[0e", b"[0x10]", b"[1_000]", b"[1-2]", b"[1+2]", b"1", b"-1", b"1.", b"-", b"- 1",
    b"1e999", b"-1e999", b"[1e999]", b"[\n1e999\n]", b'{"a":1e999}', b"[1E400, x", b"1" * 400,
    b"1 1", b"1\n1", b"1\n", b'"a" "b"', b'"a', b'"a\\', b'"a\\"', b'"\\x"', b'"\\a"', b'"\\\n"',
    b'"\\\x00"', b'"\\u', b'"\\u"', b'"\\u1"', b'"\\u12"', b'"\\u123"', b'"\\u123g"', b'"\\uzzzz"',
    b'"\\U0041"', b'"\\ud800"', b'"\\ud800', b'"\\ud800\\', b'"\\ud800\\u', b'"\\ud800\\u1"',
    b'"\\ud800\\n"', b'"\\ud800x"', b'"\\ud800\\u0041"', b'"\\ud800\\ud800"', b'"\\uDBFF\\uE000"',
    b'"\\ud83d\\ude0"', b'"\\udc00"', b'"\\uDFFF\\uD800"', b'"x\\udc00y"', b'{"\\ud800":1}',
    *(b'"a%cb"' % code for code in range(0x20)), b'{"a\nb":1}', b'["a\nb"]', b'"\x7f\x80"',
    b'"\x80"', b'"\xbf"', b'"\xc0\x80"', b'"\xc1\xbf"', b'"\xc2"', b'"\xc2', b'"\xc2x"',
    b'"\xdf\xc0"', b'"\xe0\x80\x80"', b'"\xe0\x9f\xbf"', b'"\xe0\xa0"', b'"\xe0\xa0', b'"\xe1\x80"',
    b'"\xe1\x7f"', b'"\xec\xbf\xc0"', b'"\xed\xa0\x80"', b'"\xed\x9f\x7f"', b'"\xee\x80x"',
    b'"\xef\xbf"', b'"\xf0\x80\x80\x80"', b'"\xf0\x8f\xbf\xbf"', b'"\xf0\x90\x80"', b'"\xf0\x9f',
    b'"\xf1\x80\x80x"', b'"\xf3\x80\xc0"', b'"\xf4\x8f\xbf"', b'"\xf4\x90\x80\x80"',
    b'"\xf5\x80\x80\x80"', b'"\xff"', b'"\xfe\xff"', b"\xff\xfe{}", b"\xc3\xa9", b"[\xe2\x82\xac]",
    b'{"\xff":1}', b"\xef", b"\xef\xbb", b"\xef\xbbx", b"\xefx", b"\xef\xbb\xbf", b"\xef\xbb\xbf{a",
    b"\xef\xbb\xbf\xef\xbb\xbf{}", b" \xef\xbb\xbf{}", b"\xef\xbb\xbf\x00", b"[1,2\x0c]", b"{}\x0b",
    b"\xa0{}", b"[" * 2000, b"[" * 600 + b"]" * 599 + b"}", b"{}\xe2\x80\xa8", b"\r\n\r\n{a",
    b'{"a":"b\\u0000c",x', b'{"\\u0000":1,x', b'["\x01', b'\x01', b'"""', b"''", b"{'a':1}",
    b'{"a":"b" "c":"d"}', b'{"a" "b"}', b'[1,"a',
]  # fmt: skip
VALID = [
    b"{}", b"[]", b" {\n}\t", b"\xef\xbb\xbf{}", b"\xef\xbb\xbf {}", b"{}\x00{", b'""', b"0", b"-0",
    b"1e5", b"1e-999", b"0e999", b"true", b"[null]", b"18446744073709551616", b'{"a":1,"a":2}',
    b'"\xf4\x8f\xbf\xbf"', b'"\xef\xbf\xbf"', b'"\\u0000\x7f\\/"', b"[" * 1500 + b"]" * 1500,
]  # fmt: skip
SEEDS = [
    b'{"content":"a\\u00e9\\ud83d\\ude00\\n","n":[1,-2.5e3,true,false,null],"x":{"y":{},"z":[]}}',
    b'\xef\xbb\xbf[1,"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"]',
    b' {\n"a" : 1e99,\n "b": -0 }\n',
    b"[12345678901234567890123, -9223372036854775809, 18446744073709551615, 0.1e-7,12\n,3]\n",
]
INSERTED = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\x00", b"\n",
    b"\t", b"\x1f", b"-", b"0", b"1", b".", b"e", b"E", b"+", b"tru", b"nul", b"\xc3", b"\xe2\x82",
    b"\xed\xa0\x80", b"\xf0\x9f", b"\xff", b"\xef", b"/", b"NaN", b" ", b"a", b"1e999", b"\x7f",
]  # fmt: skip

# JSON string literals whose text comes back in a reply.
STRINGS = [
    '"plain"', '"\\u0000\\u0001\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u001b\\u001f\\u007f"',
    '"\\"\\\\/\\/"', '"é\\u00e9€\\u20ac😀\\ud83d\\ude00"', '"\\u0080\\u009f\\u00a0\\u2028\\ufeff"',
    '"\\ufffe\\uffff\\uffFD"', '""', '"<>&\'"', '"\\u0000"',
]  # fmt: skip

COMMON = [
    "null", "true", "false", '"7"', '""', "[]", "[1]", "{}", '{"a":1}', "0", "1", "-1", "2", "3",
    "1.9", "-1.9", "0.5", "-0.5", "0.99", "1.0000001", "-0", "-0.0", "0.0",
]  # fmt: skip
HUGE = [
    "2147483646", "2147483647", "2147483648", "-2147483647", "-2147483648", "-2147483649",
    "2147483647.5", "2147483648.5", "-2147483648.5", "-2147483649.5", "4294967295", "4294967296",
    "4294967297", "4294967295.5", "4294967296.5", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "1e10", "-1e10", "9223372036854775807.0", "1e19", "-1e19", "1e300",
    "-1e300",
]  # fmt: skip
FLOATS = [
    "1e38", "3.4028234663852886e38", "3.4028235677973366e38", "3.5e38", "-3.5e38",
    "1e300", "-1e300", "1e-45", "1e-46", "-1e-46", "1.17549435e-38", "16777217", "-16777217",
    "9007199791611905", "18446744073709551615", "9223371761976868864",
    "9223371761976868863", "0.1", "0.95",
    "0.05", "0.990000001", "0.9900000095367432", "0.99000001", "1e15", "1e16", "123456789.5",
    "1e-5", "0.0001", "3.141592653589793", "-1000000.25", "1.0000000596046448", "7.038531e-26",
]  # fmt: skip
# Field: (kind, values). All but a few come back in `generation_settings`.
FIELDS: dict[str, tuple[str, list[str]]] = {
    "n_keep": ("int32", COMMON + HUGE),
    "n_discard": ("int32", COMMON + HUGE),
    "n_predict": ("int32", [*COMMON, *HUGE, "-2"]),
    "top_k": ("int32", COMMON + HUGE),
    "mirostat": ("int32", [*COMMON, *HUGE]),
    "n_cmpl": ("int32", [v for v in COMMON if v not in ("2", "true")] + HUGE),
    "n": ("int32", ["0", "3", "-1", "1.9", '"1"', "null", "1"]),
    "max_tokens": ("int32", ["null", "-2", '"7"', "1.9"]),
    "repeat_last_n": ("int32", [*COMMON, "-1", "-2", "1000"]),
    "sse_ping_interval": ("int32", [*COMMON, "-2", *HUGE]),
    "reasoning_budget_tokens": ("int32", [*COMMON, "-2"]),
    "seed": ("uint32", COMMON + HUGE),
    "t_max_predict_ms": ("int64", [*COMMON, *HUGE, "-2"]),
    "temperature": ("float32", COMMON + FLOATS),
    "top_p": ("float32", COMMON + FLOATS),
    "min_p": ("float32", COMMON + FLOATS),
    "top_n_sigma": ("float32", COMMON + FLOATS),
    "typical_p": ("float32", COMMON + FLOATS),
    "dynatemp_range": ("float32", COMMON + FLOATS),
    "adaptive_target": ("float32", COMMON + FLOATS),
    "adaptive_decay": ("float32", COMMON + FLOATS),
    "dry_base": ("custom", COMMON + FLOATS),
    "stream": ("bool", [v for v in COMMON if v != "true"]),
    "timings_per_token": ("bool", COMMON),
    "post_sampling_probs": ("bool", COMMON),
    "ignore_eos": ("bool", COMMON),
    "stream_options": ("json", [*COMMON, '"garbage"', '{"include_usage":null}']),
    "stream_options.include_usage": ("bool", COMMON),
    "generation_prompt": ("string", COMMON),
    "reasoning_format": ("string", [*COMMON, '"none"', '"auto"', '"no\\u0000pe"']),
    "response_fields": ("json", [v for v in COMMON if not v.startswith('"')] + ['["a",1]']),
    "dry_sequence_breakers": ("json", [*COMMON, '["a"]', '["a",1]', '[""]', "[null]"]),
    "logit_bias": ("json", [*COMMON, "[[5,1.5]]", "[[5,false]]", "[[5,true]]", '{"5":2}']),
    "stop": ("json", [*COMMON, '["\\n",""]', '["\\n",null,[],{}]', '["\\n",1]', '["\\n",["a"]]']),
    "samplers": ("json", [*COMMON, '["top_k"]', '["top_k",1]', '["nope"]', '"kp"', '"?"']),
    "preserved_tokens": ("json", [*COMMON, '["a"]', '["a",1]', '{"x":"a"}', '"a"']),
    "grammar_triggers": ("json", [*COMMON, '[{"type":1}]', '[{"type":"a"}]', '{"x":{}}', '"a"']),
    "chat_format": ("json", COMMON),
    "lora": ("json", [*COMMON, '[{"id":0}]', "[1]", '["a"]', "[null]"]),
}
SHOWN_AS = {"max_tokens": "n_predict"}
HIDDEN = {
    "n_cmpl", "n", "sse_ping_interval", "reasoning_budget_tokens", "t_max_predict_ms",
    "stream_options", "stream_options.include_usage", "response_fields",
}  # fmt: skip

# Whole bodies: which fault is named, and what handlers say of bodies of other types.
ROUTES = [
    ("/completion", b"[]"), ("/completion", b"1"), ("/completion", b'"x"'),
    ("/completion", b"null"),
    ("/completion", b"{}"), ("/completion", b'{"prompt":null}'), ("/completion", b'{"prompt":{}}'),
    ("/completion", b'{"prompt":"a","n_predict":null,"max_tokens":-5}'),
    ("/completion", b'{"prompt":"a","n_predict":null,"max_tokens":-5,"n":9,"stream":1}'),
    ("/completion", b'{"prompt":"a","max_tokens":-5,"max_completion_tokens":-6}'),
    ("/completion", b'{"prompt":"a","adaptive_decay":2,"top_k":"x"}'),
    ("/completion", b'{"prompt":"a","n_cmpl":null,"n":0}'),
    ("/completion", b'{"prompt":"a","n_probs":null,"logprobs":"x"}'),
    ("/completion", b'{"prompt":"a","stream_options":{"include_usage":"yes"}}'),
    ("/v1/completions", b"[]"), ("/v1/completions", b"{}"), ("/v1/completions", b'"x"'),
    ("/v1/chat/completions", b"[]"), ("/v1/chat/completions", b"{}"),
    ("/v1/chat/completions", b"null"), ("/v1/chat/completions", b'{"messages":{}}'),
    ("/v1/chat/completions", b'{"messages":[1]}'), ("/v1/messages", b"[]"), ("/v1/messages", b"{}"),
    ("/v1/responses", b"[]"), ("/v1/responses", b"{}"), ("/apply-template", b"[]"),
    ("/apply-template", b"{}"), ("/apply-template", b"1"), ("/tokenize", b"[]"),
    ("/tokenize", b"1"),
    ("/tokenize", b'{"content":"ab"}'), ("/tokenize", b'{"content":"ab","with_pieces":true}'),
    ("/tokenize", b'{"content":"ab","with_pieces":"yes"}'),
    ("/tokenize", b'{"content":"ab","with_pieces":1}'),
    ("/tokenize", b'{"content":"ab","with_pieces":null}'), ("/tokenize", b'{"content":null}'),
    ("/tokenize", b'{"content":1}'), ("/tokenize", b'{"content":{}}'),
    ("/detokenize", b"[]"), ("/detokenize", b'{"tokens":"x"}'), ("/detokenize", b'{"tokens":null}'),
    ("/detokenize", b'{"tokens":["x"]}'), ("/detokenize", b'{"tokens":[66,true,66.9]}'),
    ("/infill", b"[]"), ("/infill", b"{}"), ("/infill", b'{"input_prefix":1,"input_suffix":""}'),
    ("/embedding", b"[]"), ("/rerank", b"[]"), ("/rerank", b"{}"), ("/lora-adapters", b"{}"),
    ("/lora-adapters", b"[1]"), ("/lora-adapters", b"[]"),
    ("/slots/0?action=save", b"{}"), ("/slots/0?action=save", b"[]"),
]  # fmt: skip


def main(server: str) -> None:
    def post(path: str, body: bytes) -> tuple[int, bytes]:
        request = urllib.request.Request(server + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def message(raw: bytes) -> str | None:
        error = json.loads(raw).get("error")
        return error["message"] if error else None

    rows: list[Any] = []
    for body in [*MALFORMED, *VALID, *mutations(400)]:
        text = message(post("/tokenize", body)[1])
        is_parse = text is not None and ("parse_error." in text or "out_of_range.406" in text)
        rows.append([body.decode("latin-1"), text if is_parse else None])
    save("parse.json", rows)

    rows = []
    for literal in STRINGS:
        chat = f'{{"messages":[{{"role":"user","content":{literal}}}]}}'
        reply = post("/apply-template", chat.encode())[1]
        rows.append([literal, reply.decode()])
    save("strings.json", rows)

    rows = []
    for extra in (b"", b',"n_probs":5', b',"n_probs":3,"post_sampling_probs":true,"seed":4'):
        body = b'{"prompt":"the in","n_predict":12' + extra + b"}"
        rows.append(post("/completion", body)[1].decode())
    save("replies.json", rows)

    fields: dict[str, list[Any]] = {}
    for name, (kind, values) in FIELDS.items():
        rows = [kind]
        for value in values:
            inner = f'"{name}":{value}'
            if name == "stream_options.include_usage":
                inner = f'"stream_options":{{"include_usage":{value}}}'
            stop = "" if name == "stop" else ',"stop":["\\n"," "]'
            count = "" if name in ("n_predict", "max_tokens") else ',"n_predict":1'
            raw = post("/completion", f'{{"prompt":"a"{count}{stop},{inner}}}'.encode())[1]
            text = None if raw.startswith(b"[") else message(raw)
            shown = None
            if text is None and name not in HIDDEN:
                settings = json.loads(raw, parse_float=Text, parse_int=Text)["generation_settings"]
                shown = plain(settings[SHOWN_AS.get(name, name)])
            rows.append([value, text, shown])
        fields[name] = rows
    save("fields.json", fields)

    rows = []
    for path, body in ROUTES:
        status, raw = post(path, body)
        rows.append([path, body.decode("latin-1"), status, message(raw) or raw.decode()[:200]])
    save("routes.json", rows)


class Text(str):
    """A number as the reply spells it."""


def plain(value: Any) -> str:
    """JSON text of a setting, numbers spelled as in the reply."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(plain(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{plain(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def mutations(count: int) -> list[bytes]:
    """Valid bodies with up to three edits each, the same ones every time."""
    random.seed(20)
    bodies = []
    for _ in range(count):
        body = random.choice(SEEDS)
        for _ in range(random.randint(1, 3)):
            place = random.randint(0, len(body))
            edit = random.random()
            if edit < 0.5:
                body = body[:place] + random.choice(INSERTED) + body[place:]
            elif edit < 0.7:
                body = body[:place] + body[place + random.randint(1, 5) :]
            elif edit < 0.85:
                body = body[:place]
            else:
                body = body[:place] + bytes([random.randrange(256)]) + body[place + 1 :]
        bodies.append(body)
    return bodies


def save(name: str, data: Any) -> None:
    """One row a line, so that a new recording reads as a diff."""
    if isinstance(data, dict):
        parts = [f"{json.dumps(k)}: [\n{rows(v)}\n]" for k, v in data.items()]
        text = "{\n" + ",\n".join(parts) + "\n}\n"
    else:
        text = f"[\n{rows(data)}\n]\n"
    (HERE / name).write_text(text)


def rows(data: list[Any]) -> str:
    return ",\n".join(json.dumps(row) for row in data)


if __name__ == "__main__":
    main(sys.argv[1])
