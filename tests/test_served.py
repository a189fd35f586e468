"""The main job, end to end: the real model, the real server, real clients over HTTP."""

import http.client
import json
import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from codegen.capture.server import RunningServer
from tests.server import StartServer

QUESTION = [{"role": "user", "content": "Name three animals, with an emoji for each."}]


@pytest.fixture(scope="module")
def server(start_server: StartServer) -> RunningServer:
    """A server with the real model."""
    return start_server("-c", "1024", model="smollm2")


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    """The official OpenAI client."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield client


def test_openai_client_streams_what_the_plain_reply_says(client: openai.OpenAI) -> None:
    options = {"model": "any", "messages": QUESTION, "max_tokens": 40, "temperature": 0}
    plain = client.chat.completions.create(**options)
    chunks = list(
        client.chat.completions.create(
            **options, stream=True, stream_options={"include_usage": True}
        )
    )
    streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert streamed == plain.choices[0].message.content
    assert "\N{REPLACEMENT CHARACTER}" not in streamed
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens == 40
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"


def test_the_answer_makes_sense(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=24,
        temperature=0,
    )
    assert "Paris" in reply.choices[0].message.content


def test_characters_split_over_tokens_arrive_whole(server: RunningServer) -> None:
    body = {
        "prompt": "🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🦊🐻🐼🐨",
        "n_predict": 24,
        "temperature": 0,
        "stream": True,
    }
    frames = _frames(httpx.post(f"{server.url}/completion", json=body, timeout=120).text)
    texts = [frame["content"] for frame in frames]
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(texts)
    assert any(ord(c) > 0xFFFF for c in "".join(texts)), "no emoji was written: a weak prompt"


def test_a_repeated_prompt_is_taken_from_the_cache(server: RunningServer) -> None:
    body = {"prompt": "The quick brown fox jumps over", "n_predict": 2, "temperature": 0}
    first = httpx.post(f"{server.url}/completion", json=body, timeout=120).json()
    again = httpx.post(f"{server.url}/completion", json=body, timeout=120).json()
    total = first["tokens_evaluated"]
    assert (again["timings"]["cache_n"], again["timings"]["prompt_n"]) == (total - 1, 1)
    assert again["content"] == first["content"]


def test_a_client_that_leaves_frees_its_slot(server: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    body = {"prompt": "Count to a thousand:", "n_predict": 900, "stream": True, "ignore_eos": True}
    connection.request("POST", "/completion", json.dumps(body))
    stream = connection.getresponse()
    lines = [stream.readline() for _ in range(8)]
    last = json.loads(lines[-2].removeprefix(b"data: "))
    stream.close()
    connection.close()
    slot = _wait_for_idle(server)
    written = slot["n_prompt_tokens"] - last["tokens_evaluated"]
    # What was generated before the connection's end could be seen, and at most one token more.
    assert written < 30


def _wait_for_idle(server: RunningServer) -> dict[str, int]:
    """The slot that was used last, once none is at work."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        slots = httpx.get(f"{server.url}/slots").json()
        if not any(slot["is_processing"] for slot in slots):
            return max(slots, key=lambda slot: slot.get("id_task", -1))
    raise AssertionError("a slot is still at work 20 seconds after its client left")


def _frames(text: str) -> list[dict[str, object]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
