"""A limit may end an answer while text is held back that could have begun a stop string."""

import json
from typing import Any

import httpx
import pytest

from tests.server import StartServer

PROMPT = {"prompt": "in an 0123456789", "n_predict": 8, "temperature": 0, "stop": ["\nM\nM~"]}
CHAT = {
    "messages": [{"role": "user", "content": "in an"}],
    "max_tokens": 8,
    "temperature": 0,
    "stop": ["Z52\nZ52\n~"],
}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/completion", PROMPT, "in2\nM\nM\nM"),
        ("/v1/completions", PROMPT, "in2\nM\nM\nM"),
        ("/v1/chat/completions", CHAT, "Z52\nZ52\n"),
        ("/v1/chat/completions", CHAT | {"max_tokens": 3}, "Z52"),
    ],
)
def test_a_stream_says_what_the_plain_reply_says(
    start_server: StartServer, path: str, body: dict[str, Any], text: str
) -> None:
    url = start_server("-np", "1").url + path
    plain = said(httpx.post(url, json=body, timeout=60).json())
    stream = httpx.post(url, json=body | {"stream": True}, timeout=60).text
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    frames = [json.loads(line) for line in lines if line != "[DONE]"]
    assert "".join(said(frame) for frame in frames) == plain
    assert plain == text


def said(reply: dict[str, Any]) -> str:
    """The text of a reply or of a frame, in any API."""
    if "content" in reply:
        return str(reply["content"])
    parts = []
    for choice in reply["choices"]:
        message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
        parts.append(message.get("content") or "")
    return "".join(parts)
