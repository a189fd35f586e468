"""Record how llama-server keeps chats to JSON Schemas, for tests/test_response_format.py.

Usage: python tests/record_response_formats.py LLAMA_SERVER MADE_MODEL PORT
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.chat_cases import TEMPLATES

SCHEMA = {"properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"]}
MESSAGES = [{"role": "user", "content": "hi"}]
EVERYWHERE: list[dict[str, Any]] = [
    {"json_schema": SCHEMA},
    {"json_schema": SCHEMA, "reasoning_format": "none"},
    {"json_schema": SCHEMA, "chat_template_kwargs": {"enable_thinking": False}},
]
ONCE: list[dict[str, Any]] = [
    {"json_schema": {}}, {"json_schema": True}, {"json_schema": []},
    {"json_schema": None, "grammar": 'root ::= "x"'},
    {"json_schema": {}, "grammar": 'root ::= "x"'},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_object"}, "json_schema": {"const": 2}},
    {"response_format": {"type": "json_object", "schema": {}}, "json_schema": {"const": 2}},
    {"response_format": {"type": "json_object"}, "grammar": 'root ::= "x"'},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": 3}}},
     "grammar": 'root ::= "x"'},
    {"grammar": "root ::= ["}, {"response_format": "x"}, {"response_format": None},
    {"response_format": {"type": "text"}, "json_schema": {"const": 2}},
    {"response_format": {"type": "json_schema", "schema": {"const": 3}}},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": True}}},
    {"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}},
    {"grammar": 'root ::= "x"', "grammar_lazy": True},
    {"grammar": 'root ::= "<|im_start|>assistant\\n" "x"', "grammar_type": "tool_calls"},
    {"json_schema": {"$ref": "x"}}, {"json_schema": {"$ref": 5}}, {"json_schema": {"type": "foo"}},
    {"json_schema": {"type": "string", "minLength": 3, "maxLength": 3}},
    {"json_schema": {"type": "array", "items": {"type": ["number", "null", "boolean"]}}},
    {"json_schema": {"type": "object"}, "max_tokens": 60},
    {"json_schema": {"properties": {"t": {"type": "string", "maxLength": 9}}, "required": ["t"]}},
    *({"json_schema": SCHEMA, "max_tokens": length} for length in (1, 3, 7, 9, 12, 18, 25)),
]  # fmt: skip


def ask(url: str, body: Any) -> Any:
    """POST `body`; the decoded answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return json.load(error)


def wait(url: str) -> None:
    """Until the server there answers."""
    while True:
        try:
            urllib.request.urlopen(url + "/health").read()
            return
        except OSError:
            time.sleep(0.1)


def case(url: str, template: str, body: dict[str, Any]) -> dict[str, Any]:
    """What came of one body."""
    sent = {"messages": MESSAGES, "max_tokens": 40, "seed": 3, "verbose": True, **body}
    reply = ask(url + "/v1/chat/completions", sent)
    made: dict[str, Any] = {"template": template, "body": body}
    if "error" in reply:
        return made | {"error": reply["error"]}
    settings = reply["__verbose"]["generation_settings"]
    return made | {
        "grammar": settings["grammar"],
        "text": reply["__verbose"]["content"],
        "message": reply["choices"][0]["message"],
    }


def main() -> None:
    program, model, port = sys.argv[1:]
    url = f"http://127.0.0.1:{port}"
    cases = []
    for name, path in TEMPLATES.items():
        if name.startswith("family_"):
            continue
        given = ["-m", model, "-np", "1", "--port", port, "--chat-template-file", str(path)]
        exact = ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1"]
        with subprocess.Popen([program, *given, *exact], stderr=subprocess.DEVNULL) as server:
            wait(url)
            bodies = [*EVERYWHERE, *(ONCE if name == "plain" else [])]
            cases += [case(url, name, body) for body in bodies]
            server.kill()
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in cases)
    path = Path(__file__).parent / "data/grammar/response_formats.json"
    path.write_text(f"[\n{lines}\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
