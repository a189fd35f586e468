"""A client ends the reasoning of its completion while another connection streams it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from codegen.capture.server import RunningServer
from tests.server import StartServer
from tests.stepped import Server, text_of
from tests.tiny_llama import sampling, task

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}:"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:<think>{% endif %}"
)
QUESTION = [{"role": "user", "content": "in an"}]


@pytest.fixture(scope="module")
def server(start_server: StartServer) -> RunningServer:
    """Its chats begin with a reasoning that the model never ends by itself."""
    return start_server("-c", "4096", "-np", "2", "--chat-template", TEMPLATE)


def test_a_stream_goes_on_with_its_answer(server: RunningServer) -> None:
    body = {
        "messages": QUESTION,
        "stream": True,
        "max_tokens": 1500,
        "temperature": 0,
        "ignore_eos": True,
        "reasoning_control": True,
        "reasoning_budget_message": " enough!",
    }
    thought, answer, ended = "", "", False
    url = f"{server.url}/v1/chat/completions"
    with httpx.Client() as other, httpx.stream("POST", url, json=body, timeout=60) as stream:
        for chunk in _chunks(stream):
            delta = chunk["choices"][0]["delta"]
            thought += delta.get("reasoning_content") or ""
            answer += delta.get("content") or ""
            if len(thought) >= 20 and not ended:
                ended = True
                asked = {"id": chunk["id"], "action": "reasoning_end"}
                reply = other.post(f"{url}/control", json=asked)
                assert reply.json() == {"success": True}
        assert chunk["choices"][0]["finish_reason"] == "length"
    assert thought.endswith(" enough!")
    assert len(answer) > 0


def test_the_end_is_forced_with_the_next_token() -> None:
    server = Server()
    control = sampling(
        reasoning_control=True,
        generation_prompt="<",
        reasoning_start=tuple(b"<"),
        reasoning_ends=(tuple(b">"),),
        reasoning_forced=tuple(b"so>"),
    )
    id = server.submit(task("a<", n_predict=9, sampling=control, completion_id="x"))
    for _ in range(4):
        server.scheduler.step()
    before = text_of(server.events[id])
    assert server.scheduler.end_reasoning("y") == "not_running"
    assert server.scheduler.end_reasoning("x") == "asked"
    server.run()
    after = text_of(server.events[id]).removeprefix(before)
    assert (len(before) > 0, after[:3], len(before + after)) == (True, "so>", 9)
    assert server.scheduler.end_reasoning("x") == "not_running"


def test_only_who_asked_for_control_has_it() -> None:
    server = Server()
    server.submit(task(completion_id="x"))
    server.scheduler.step()
    assert server.scheduler.end_reasoning("x") == "not_controlled"


def _chunks(stream: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in stream.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
