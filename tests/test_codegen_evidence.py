"""What the spec claims was shown by a recorded answer: claims, divergences, answers and owners."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codegen.capture import captures
from codegen.capture.probes import read_setups
from codegen.evidence import Shapes
from codegen.gates import check_decisions
from codegen.load import load
from codegen.problems import Problems
from tests.codegen_specs import GONE, change, small_spec

CAPTURES = ("captures/completion.json", "captures")
PLAIN = (*CAPTURES, 0, "answer", "body")
IN = "in spec/captures/completion.json: "
MEND = "record one, or say in spec/exceptions.json why none can"

WRONG: list[tuple[Sequence[str | int], Any, list[str]]] = [
    # Supported without an answer that shows it.
    (
        (*CAPTURES, 2, "covers"),
        ["option:--metrics"],
        [f"route:GET /metrics is supported, but no recorded answer shows it: {MEND}"],
    ),
    (
        (*CAPTURES, 0, "covers"),
        ["field:n_predict", "field:temperature"],
        [
            f"field:stop is supported, but no recorded answer shows it: {MEND}",
            f"option:--metrics is supported, but no recorded answer shows it: {MEND}",
        ],
    ),
    (
        (*CAPTURES, 3, "covers"),
        ["route:POST /count", "field:count.content", "field:count.tag"],
        [f"field:count.add_special is supported, but no recorded answer shows it: {MEND}"],
    ),
    (
        ("agreement.json", "differing"),
        ["completion/bytes", "completion/metrics"],
        [f"route:GET /metrics is supported, but none of 1 recorded answers shows it: {MEND}"],
    ),
    (
        ("exceptions.json", "unshown"),
        [],
        [f"option:--predict is supported, but no recorded answer shows it: {MEND}"],
    ),
    # What stands among the exceptions though it needs none.
    (
        ("exceptions.json", "unshown", 0, "what"),
        ["field:seed", "option:--predict", "route:POST /count", "route:POST /nowhere"],
        [
            "in spec/exceptions.json: field:seed isn't supported: take it out",
            "in spec/exceptions.json: route:POST /count is shown by 1 recorded answers:"
            " take it out",
            "in spec/exceptions.json: route:POST /nowhere isn't supported: take it out",
        ],
    ),
    # A divergence that is none any more.
    (
        ("agreement.json", "differing"),
        [],
        ["in spec/divergences.json: counts_bytes: nothing diverges: all 1 answers are given alike"],
    ),
    (
        ("divergences.json", "divergences", 0, "covers"),
        ["completion/plain"],
        [],
    ),
    # Of answers that were recorded after the last replay nothing is known.
    (
        ("agreement.json", "replayed"),
        {"completion": 5, "gone": 1},
        ["in spec/agreement.json: not as replayed last: gone: run `make coverage`"],
    ),
    # An answer that no reply of its route describes.
    (
        (*PLAIN, "stop"),
        1,
        [f"{IN}plain: the answer is no completion: stop: 0 is not of type 'boolean'"],
    ),
    (
        (*PLAIN, "content"),
        GONE,
        [f"{IN}plain: the answer is no completion: 'content' is a required property"],
    ),
    (
        (*PLAIN, "object"),
        "chat",
        [f"{IN}plain: the answer is no completion: object: 'completion' was expected"],
    ),
    (
        (*PLAIN, "tokens"),
        [{"id": 1}, {"id": "x"}],
        [f"{IN}plain: the answer is no completion: tokens[1].id: '…' is not of type 'integer'"],
    ),
    (
        (*CAPTURES, 1, "answer", "frames", 0, "data", "logprob"),
        "x",
        [f"{IN}streamed: frame 0 is no completion: logprob: '…' is not of type 'number', 'null'"],
    ),
    (
        (*CAPTURES, 0, "answer"),
        {"status": 200, "headers": {}, "body": [{"id": 1}, {"id": None}]},
        [f"{IN}plain: the answer is no completion_token: id: None is not of type 'integer'"],
    ),
    (
        (*CAPTURES, 3, "request"),
        "POST /counts",
        [f"{IN}count: the answer is given by a route without replies in the spec"],
    ),
    (
        (*CAPTURES, 0, "answer", "status"),
        400,
        [],
    ),
    # An answer that shows nothing.
    (
        (*CAPTURES, 4, "covers"),
        ["route:POST /recount"],
        [f"{IN}bytes: covers nothing that the spec has"],
    ),
]


def found(spec: Path) -> list[str]:
    problems = Problems()
    check_decisions(load(spec), spec, problems)
    return problems.found


@pytest.mark.parametrize(("place", "value", "lines"), WRONG)
def test_a_claim_without_evidence_is_named(
    place: Sequence[str | int], value: Any, lines: list[str], tmp_path: Path
) -> None:
    spec = small_spec(tmp_path)
    file, *keys = place
    change(spec / str(file), *keys, to=value)
    assert found(spec) == lines


def test_without_a_replay_nothing_is_shown(tmp_path: Path) -> None:
    spec = small_spec(tmp_path)
    (spec / "agreement.json").unlink()
    lines = found(spec)
    assert lines[0] == (
        f"route:GET /metrics is supported, but none of 1 recorded answers shows it: {MEND}"
    )
    assert lines[-1] == (
        "in spec/agreement.json: not as replayed last: completion: run `make coverage`"
    )


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"content": "a"}, None),
        ({"stop": True, "tokens": [{"id": 1}]}, None),
        ({"content": 1}, "the answer has unknown or wrong parts: content"),
        ({"content": "a", "text": "a"}, "the answer has unknown or wrong parts: text"),
        ({"tokens/id": 1}, "the answer has unknown or wrong parts: tokens/id"),
    ],
)
def test_an_answer_may_have_only_the_keys_asked_for(
    body: dict[str, Any], wrong: str | None, tmp_path: Path
) -> None:
    spec = small_spec(tmp_path)
    change(spec / "captures/completion.json", "captures", 0, "body", to={"response_fields": ["x"]})
    change(spec / "captures/completion.json", "captures", 0, "answer", "body", to=body)
    assert found(spec) == ([f"{IN}plain: {wrong}"] if wrong else [])


def test_every_recorded_reply_of_the_real_spec_is_read() -> None:
    """One wrong key in any group's first good answer is seen: none is skipped."""
    root = Path(__file__).parent.parent / "spec"
    spec = load(root)
    setups = read_setups(root).by_name
    shapes = Shapes(spec)
    for group, recorded in captures.read_all(root):
        for capture in recorded:
            body = capture.answer.get("body")
            if capture.answer["status"] == 200 and isinstance(body, dict):
                body["never_heard_of"] = 1
                assert list(shapes.faults(capture, setups[group.setup])), group.name
                break
