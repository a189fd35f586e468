"""How the server starts, what it says when it can't, and how it stops."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from codegen.capture.probes import Setup
from codegen.capture.server import ROOT, RunningServer, our_command, start
from tests.server import StartServer

LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


def test_health_is_503_while_the_model_loads_and_then_ok() -> None:
    server = start(our_command(), Setup("start", "smollm2", ()))
    try:
        answers = _answers_until_ok(server)
    finally:
        server.stop()
    assert answers[0] == (503, LOADING)
    assert answers[-1] == (200, {"status": "ok"})
    assert len(answers) == 2


def test_sigterm_ends_it_with_status_0(start_server: StartServer) -> None:
    server = start(our_command(), Setup("start", "made:llama", ()))
    server.wait_ready()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "error: model.gguf doesn't exist: check the path\n"),
        (b"", "error: model.gguf is empty: download it again\n"),
        (
            b"hello, this is no model at all",
            "error: model.gguf isn't a GGUF file: it begins with b'hell', not with b'GGUF'\n",
        ),
        (
            b"GGUF\x03\x00\x00\x00" + b"\xff" * 16,
            "error: model.gguf is damaged: 18446744073709551615 tensors can't fit in 24 bytes;"
            " download or convert it again\n",
        ),
    ],
)
def test_an_unusable_model_is_one_plain_line(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "model.gguf").write_bytes(content)
    done = _run(tmp_path, "-m", "model.gguf", "--port", "0", "--log-disable")
    assert (done.returncode, done.stderr) == (1, says)


def test_without_a_model_it_says_how_to_give_one(tmp_path: Path) -> None:
    done = _run(tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "error: no model given: start with -m FILE, a GGUF file or an MLX model folder\n",
    )


def test_a_port_in_use_is_one_plain_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _run(tmp_path, "-m", "model.gguf", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: couldn't bind to 127.0.0.1:{port}: Address already in use"
        " (is another server running there? choose another with --port)"
    )


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handlers.main", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _answers_until_ok(server: RunningServer) -> list[tuple[int, object]]:
    """The different answers of /health, in their order, until it is well."""
    answers: list[tuple[int, object]] = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            reply = httpx.get(f"{server.url}/health", timeout=5)
        except httpx.TransportError:
            continue
        answer = (reply.status_code, reply.json())
        if answer not in answers:
            answers.append(answer)
        if reply.status_code == 200:
            return answers
    raise AssertionError(f"never well: {answers}")
