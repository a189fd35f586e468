"""A model shared by two processes: the same answers as from one, and an end when either ends."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from codegen.capture.server import RunningServer, model_file
from engine.caches.sequence import SequenceCache
from engine.distributed.launch import Launch, launch_of
from engine.distributed.runner import CHANGES
from engine.errors import ModelError
from engine.loading import load_model
from engine.loading.sharing import Share
from generated.options import parse
from handlers.together import refusal
from tests.server import StartServer
from tests.together import launched, ranks, said

SOON = 60.0
# Two slots of 256 tokens, which a long prompt all but fills.
ARGUMENTS = (
    *("-c", "512", "-np", "2", "--context-shift", "--cache-ram", "0"),
    *("--spec-type", "ngram-simple"),
)
# The best token leads so clearly that much could go wrong unseen: its probability shows it.
GREEDY = {"temperature": 0, "n_predict": 12, "ignore_eos": True, "n_probs": 3}
SEEDED = GREEDY | {"temperature": 1, "seed": 4, "top_k": 0, "top_p": 1, "min_p": 0}
CASES: dict[str, dict[str, Any]] = {
    "greedy": GREEDY | {"prompt": "in an"},
    "seeded": SEEDED | {"prompt": "the then tan"},
    "reused": GREEDY | {"prompt": "in an hour", "id_slot": 0, "n_predict": 4},
    "guessed": GREEDY | {"prompt": "52\nM\nM\nZ52\nY\nY\nM\nM\nL" * 8},
    "shifted": GREEDY | {"prompt": "0123456789" * 25, "n_keep": 8},
}
DIFFER = ("timings", "generation_settings", "model", "completion_probabilities")


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningServer]:
    with launched(*ARGUMENTS) as server:
        yield server


@pytest.fixture(scope="module")
def alone(start_server: StartServer) -> RunningServer:
    return start_server(*ARGUMENTS)


def complete(server: RunningServer, body: dict[str, Any]) -> Any:
    reply = httpx.post(f"{server.url}/completion", json=body, timeout=SOON)
    assert reply.status_code == 200, reply.text
    return reply.json()


def stream(server: RunningServer, body: dict[str, Any]) -> list[Any]:
    """Every frame of a stream, without its timings."""
    url = f"{server.url}/completion"
    with httpx.stream("POST", url, json=body | {"stream": True}, timeout=SOON) as reply:
        frames = [json.loads(x.removeprefix("data: ")) for x in reply.iter_lines() if x]
    return [{k: v for k, v in frame.items() if k not in DIFFER} for frame in frames]


def test_answers_are_those_of_one_process(shared: RunningServer, alone: RunningServer) -> None:
    for name, body in CASES.items():
        ours, theirs = complete(shared, body), complete(alone, body)
        assert {k: v for k, v in ours.items() if k not in DIFFER} == {
            k: v for k, v in theirs.items() if k not in DIFFER
        }, name
        for figure in ("cache_n", "draft_n", "draft_n_accepted"):
            assert ours["timings"].get(figure) == theirs["timings"].get(figure), (name, figure)
        assert ours["truncated"] is (name == "shifted")
        assert ("draft_n" in ours["timings"]) is (name == "guessed")
        # Each process adds up its half of every sum: that is all that differs.
        assert _logprobs(ours) == pytest.approx(_logprobs(theirs), abs=1e-5), name


def _logprobs(reply: Any) -> list[float]:
    tokens = reply.get("completion_probabilities", [])
    return [one["logprob"] for token in tokens for one in token["top_logprobs"]]


def test_two_streams_at_once_are_those_of_one_process(
    shared: RunningServer, alone: RunningServer
) -> None:
    bodies = [SEEDED | {"prompt": prompt, "id_slot": n} for n, prompt in enumerate(("on", "to"))]
    with ThreadPoolExecutor() as pool:
        ours = pool.map(lambda body: stream(shared, body), bodies)
        assert list(ours) == [stream(alone, body) for body in bodies]


def test_a_prompt_shared_by_two_choices(shared: RunningServer, alone: RunningServer) -> None:
    body = {"prompt": "in an", "n": 2, "max_tokens": 6, "seed": 5}
    ours, theirs = (
        httpx.post(f"{one.url}/v1/completions", json=body, timeout=SOON).json()
        for one in (shared, alone)
    )
    assert ours["choices"] == theirs["choices"]


def test_a_client_that_vanishes_frees_its_slot(shared: RunningServer, alone: RunningServer) -> None:
    body = SEEDED | {"prompt": "in an", "n_predict": -1, "stream": True, "id_slot": 1}
    with httpx.stream("POST", f"{shared.url}/completion", json=body, timeout=SOON) as reply:
        next(reply.iter_lines())
    again = GREEDY | {"prompt": "after that", "id_slot": 1}
    assert complete(shared, again)["content"] == complete(alone, again)["content"]


def test_it_ends_with_a_plain_line_when_another_process_does(tmp_path: Path) -> None:
    body = SEEDED | {"prompt": "in an", "n_predict": -1, "stream": True}
    with ranks(*ARGUMENTS, folder=tmp_path) as (leader, follower):
        leader.wait_ready()
        with httpx.stream("POST", f"{leader.url}/completion", json=body, timeout=SOON) as reply:
            lines = reply.iter_lines()
            next(lines)
            follower.process.kill()
            *_, last = [line for line in lines if line]
        health = httpx.get(f"{leader.url}/health")
        status = leader.process.wait(SOON)
        ends = said(leader)
    line = "rank 1 on 127.0.0.1 has ended"
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == line
    assert (health.status_code, health.json()["error"]["message"]) == (
        503,
        f"The engine has stopped: {line}",
    )
    assert (status, ends) == (1, [f"error: {line}"])


@pytest.mark.parametrize(
    ("end", "status", "ends"),
    [("kill", [-9, 1], [[], ["error: rank 0 has ended"]]), ("stop", [0, 0], [[], []])],
)
def test_the_others_end_when_rank_0_does(
    tmp_path: Path, end: str, status: list[int], ends: list[list[str]]
) -> None:
    with ranks(*ARGUMENTS, folder=tmp_path) as (leader, follower):
        leader.wait_ready()
        # What a terminal sends to all is for rank 0 to answer.
        follower.process.send_signal(signal.SIGINT)
        if end == "kill":
            leader.process.kill()
        elif leader.process.stdin is not None:
            leader.process.stdin.close()  # as when its launcher ends
        assert [one.process.wait(SOON) for one in (leader, follower)] == status
        assert [said(one) for one in (leader, follower)] == ends


@pytest.mark.parametrize(
    ("name", "n", "says"),
    [
        (
            "phi3",
            2,
            "phi3: mlx-lm can't share models of this architecture between processes:"
            " start it in one",
        ),
        ("llama", 3, "llama: its attention heads can't be divided among 3 processes: start 2"),
    ],
)
def test_a_model_that_cannot_be_shared_is_one_plain_line(name: str, n: int, says: str) -> None:
    model = load_model(model_file(f"made:{name}"), weights="float32").model
    share = Share(SimpleNamespace(size=lambda: n), lambda own, n_values: own)
    with pytest.raises(ModelError) as error:
        share.check(model, name)
    assert str(error.value) == says


def test_slots_that_lie_in_several_processes_are_not_saved() -> None:
    settings = parse(["--slot-save-path", "/tmp"], {}, list)
    assert refusal(settings) == (
        "--slot-save-path can't be used when several processes share a model,"
        " since each holds a part of every slot"
    )


RING = '[["10.0.0.1:5000", "10.0.0.1:5001"], ["10.0.0.2:5002"]]'


@pytest.mark.parametrize(
    ("environment", "hosts", "launch"),
    [
        ({}, "", None),
        ({"MLX_RANK": "0", "MLX_HOSTFILE": "{file}"}, "", None),
        ({"MLX_RANK": "1", "MLX_HOSTFILE": "{file}"}, RING, Launch(1, 2, "10.0.0.1", 5000)),
        (
            {"MLX_RANK": "0", "MLX_IBV_DEVICES": "{file}", "MLX_JACCL_COORDINATOR": "10.0.0.1:9"},
            '[[null, "rdma_en2"], ["rdma_en2", null]]',
            Launch(0, 2, "10.0.0.1", 9),
        ),
        (
            {"MLX_RANK": "3", "MLX_WORLD_SIZE": "4", "NCCL_HOST_IP": "h", "NCCL_PORT": "7"},
            "",
            Launch(3, 4, "h", 7),
        ),
    ],
)
def test_how_a_process_was_launched(
    tmp_path: Path, environment: dict[str, str], hosts: str, launch: Launch | None
) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(hosts)
    assert launch_of({k: v.format(file=file) for k, v in environment.items()}) == launch


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (
            {"MLX_RANK": "0", "MLX_HOSTFILE": "nowhere.json"},
            "the environment isn't as mlx.launch sets it up (FileNotFoundError: [Errno 2] No such"
            " file or directory: 'nowhere.json'): start with mlx.launch, or without MLX_RANK",
        ),
        (
            {"OMPI_COMM_WORLD_SIZE": "2"},
            "models aren't shared over MPI: use mlx.launch --backend ring",
        ),
    ],
)
def test_a_launch_that_cannot_work_is_one_plain_line(
    environment: dict[str, str], says: str
) -> None:
    with pytest.raises(ModelError) as error:
        launch_of(environment)
    assert str(error.value) == says


def test_every_change_of_a_cache_is_repeated_by_the_others() -> None:
    reads = {"common_prefix", "copy", "evaluated", "nbytes", "needs_checkpoints", "states"}
    methods = {name for name in vars(SequenceCache) if not name.startswith("_")}
    assert methods - reads == set(CHANGES)
