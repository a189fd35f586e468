"""Recorded answers: what is replaced in them, and what counts as a difference."""

from pathlib import Path
from typing import Any

import pytest

from codegen.capture import index
from codegen.capture.canonical import Replies
from codegen.capture.compare import differences

SPEC = Path(__file__).parent.parent / "spec"


def test_volatile_values_keep_their_types() -> None:
    body = {"id": "chatcmpl-1", "created": 5, "timings": {"prompt_n": 3, "prompt_ms": 1.5}}
    assert Replies.read(SPEC).canonical(body, ["chat_completion"]) == {
        "id": "…",
        "created": 0,
        "timings": {"prompt_n": 3, "prompt_ms": 0.0},
    }


def test_lists_of_replies_and_lifted_keys_are_canonical_too() -> None:
    body = [{"timings/prompt_ms": 1.5, "timings/prompt_n": 3}]
    canonical = Replies.read(SPEC).canonical(body, ["completion_final", "completion_partial"])
    assert canonical == [{"timings/prompt_ms": 0.0, "timings/prompt_n": 3}]


def test_metrics_keep_counts_and_lose_seconds_and_helps() -> None:
    text = "# HELP a words\n# TYPE a counter\na_total 3\na_seconds_total 1.25\n"
    answer = {"status": 200, "headers": {}, "text": text}
    assert Replies.read(SPEC).answer(answer, ["metrics"])["text"] == (
        "# HELP a …\n# TYPE a counter\na_total 3\na_seconds_total …\n"
    )


@pytest.mark.parametrize(
    ("reference", "ours", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, [".body.a: reference 1, ours 1.0"]),
        ({"a": 1}, {"a": True}, [".body.a: reference 1, ours True"]),
        ({"a": None}, {}, [".body.a: reference None, ours nothing"]),
        ({}, {"a": 1}, [".body.a: reference nothing, ours 1"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [".body (order): reference a b, ours b a"]),
        ([1, 2], [1], [".body: reference 2 items, ours 1 items"]),
        ({"logprob": -1.0}, {"logprob": -1.0009}, []),
        ({"logprob": -1.0}, {"logprob": -1.01}, [".body.logprob: reference -1.0, ours -1.01"]),
        ({"top_p": 0.1}, {"top_p": 0.1001}, [".body.top_p: reference 0.1, ours 0.1001"]),
    ],
)
def test_differences(reference: Any, ours: Any, expected: list[str]) -> None:
    found = differences({"body": reference}, {"body": ours})
    assert [str(difference) for difference in found] == expected


def test_shape_passes_over_generated_text_and_how_many_frames_it_took() -> None:
    def frames(*texts: str) -> dict[str, Any]:
        return {"frames": [{"data": {"content": text, "stop": False}} for text in texts]}

    assert differences(frames("a", "b"), frames("c", "d", "e"), "shape") == []
    assert [str(d) for d in differences(frames("a"), frames("b"))] == [
        ".frames[0].data.content: reference 'a', ours 'b'"
    ]


def test_index_names_the_captures_behind_an_entry() -> None:
    found = index(SPEC)
    assert found["route:GET /health"][:1] == ["api_keys/GET__health_without"]
    assert "lengths/n_predict_minus_2" in found["field:n_predict"]
    assert "aliases/chat" in found["option:-a"]
    assert "endpoints_enabled/fresh" in found["route:GET /metrics"]
    assert "tokens/tokenize_text" in found["reply:tokenize"]
