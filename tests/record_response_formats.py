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
THOUGHT = {"role": "assistant", "reasoning_content": "Two.", "content": ""}
BEGUN = {"role": "assistant", "reasoning_content": "Two.", "content": '{"a": '}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
FAMILIES: list[dict[str, Any]] = [
    {"json_schema": {}, "max_tokens": 12},
    {"json_schema": True},
    {"json_schema": SCHEMA, "tools": TOOLS, "tool_choice": "none"},
    {"json_schema": SCHEMA, "messages": [*MESSAGES, THOUGHT]},
    {"json_schema": SCHEMA, "messages": [*MESSAGES, BEGUN]},
    {"json_schema": {"$ref": "#/$defs/t", "$defs": {"t": {"enum": ["x", 2]}}}},
    {"json_schema": {"type": "foo"}},
    {"json_schema": SCHEMA, "messages": [*MESSAGES, THOUGHT], "continue_final_message": "content",
     "add_generation_prompt": False},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {"json_schema": SCHEMA, "parallel_tool_calls": True},
    {"json_schema": SCHEMA, "parallel_tool_calls": 1},
    *({"json_schema": SCHEMA, "max_tokens": length} for length in (9, 18)),
]  # fmt: skip
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


def case(url: str, template: str, body: dict[str, Any], grammars: dict[str, int]) -> dict[str, Any]:
    """What came of one body; grammars are told by their number."""
    sent = {"messages": MESSAGES, "max_tokens": 40, "seed": 3, "verbose": True, **body}
    reply = ask(url + "/v1/chat/completions", sent)
    made: dict[str, Any] = {"template": template, "body": body}
    if "error" in reply:
        return made | {"error": reply["error"]}
    settings = reply["__verbose"]["generation_settings"]
    number = grammars.setdefault(settings["grammar"], len(grammars))
    return made | {
        "prompt": reply["__verbose"]["prompt"],
        "grammar": number,
        "lazy": settings["grammar_lazy"],
        "triggers": settings["grammar_triggers"],
        "text": reply["__verbose"]["content"],
        "message": reply["choices"][0]["message"],
    }


def main() -> None:
    program, model, port = sys.argv[1:]
    url = f"http://127.0.0.1:{port}"
    cases: list[dict[str, Any]] = []
    grammars: dict[str, int] = {}
    for name, path in TEMPLATES.items():
        given = ["-m", model, "-np", "1", "--port", port, "--chat-template-file", str(path)]
        exact = ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1"]
        with subprocess.Popen([program, *given, *exact], stderr=subprocess.DEVNULL) as server:
            wait(url)
            bodies = [*EVERYWHERE, *(ONCE if name == "plain" else [])]
            bodies += FAMILIES if name.startswith("family_") else []
            cases += [case(url, name, body, grammars) for body in bodies]
            server.kill()
    listed, told = ([json.dumps(x) for x in xs] for xs in (grammars, cases))
    path = Path(__file__).parent / "data/grammar/response_formats.json"
    first, second = (",\n".join(lines) for lines in (listed, told))
    path.write_text(f'{{"grammars": [\n{first}\n], "cases": [\n{second}\n]}}\n')
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
