"""Whatever goes wrong, nobody waits for ever: real servers with faults put into them."""

import concurrent.futures
import contextlib
import json
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from codegen.capture.probes import Setup
from codegen.capture.server import RunningServer, start

SOON = 30.0
LONG = {"prompt": "in an", "n_predict": -1, "ignore_eos": True, "temperature": 1, "seed": 1}

PROGRAM = """
import ctypes, pathlib, sys, threading, time
from engine.steps.decode import Decode
from handlers.main import run

fault, trigger = sys.argv[1], pathlib.Path(sys.argv[2])
plain = Decode.run

def decode(self):
    decoded = plain(self)
    if decoded and trigger.exists():
        trigger.unlink()
        if fault == "raises":
            raise RuntimeError("broken")
        if fault == "stuck":
            threading.Event().wait()
        if fault == "stuck_inside":
            ctypes.PyDLL(None).sleep(1000)
        if fault == "dies":
            raise SystemExit("gone")
        if fault == "memory":
            raise MemoryError("[malloc] Unable to allocate 99 bytes.")
    return decoded

Decode.run = decode
if fault == "stuck_inside":
    import handlers.stopping
    handlers.stopping._HANG_SECONDS = 1
sys.exit(run(sys.argv[3:]))
"""

Start = Callable[..., RunningServer]


@pytest.fixture
def trigger(tmp_path: Path) -> Path:
    """The fault happens in the next step once this file exists."""
    return tmp_path / "now"


@pytest.fixture
def start_with(trigger: Path) -> Iterator[Start]:
    """`start_with(fault, *arguments)` gives a ready server with one fault in it."""
    servers: list[RunningServer] = []

    def start_it(fault: str, *arguments: str) -> RunningServer:
        command = [sys.executable, "-c", PROGRAM, fault, str(trigger)]
        context = ("-c", "65536", "-np", "2")
        servers.append(start(command, Setup("faults", "made:llama", (*context, *arguments))))
        servers[-1].wait_ready()
        return servers[-1]

    yield start_it
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        server.log.unlink()


def said(server: RunningServer) -> str:
    """The line that the server ended with."""
    lines = server.log.read_text().splitlines()
    return [line for line in lines if line.startswith("error: ")][-1]


def run_into(
    server: RunningServer, trigger: Path, meanwhile: Callable[[], object] = lambda: None
) -> list[str]:
    """The lines of a stream in whose middle `meanwhile` is called and the fault happens."""
    with httpx.stream("POST", f"{server.url}/completion", json=LONG | {"stream": True}) as reply:
        lines = []
        for line in reply.iter_lines():
            if not lines:
                meanwhile()
                trigger.touch()
            if line:
                lines.append(line)
    return lines


def _n_deferred(server: RunningServer) -> int:
    """Requests that wait for a slot."""
    text = httpx.get(f"{server.url}/metrics").text
    [line] = [x for x in text.splitlines() if x.startswith("llamacpp:requests_deferred ")]
    return int(line.split()[1])


def error_of(line: str) -> tuple[int, str]:
    error = json.loads(line.removeprefix("data: "))["error"]
    return error["code"], error["message"]


def test_an_exception_in_a_step_fails_who_was_in_it(start_with: Start, trigger: Path) -> None:
    server = start_with("raises")
    assert error_of(run_into(server, trigger)[-1]) == (500, "got exception: broken")
    reply = httpx.post(f"{server.url}/completion", json=LONG | {"n_predict": 3}, timeout=SOON)
    assert reply.json()["tokens_predicted"] == 3


def test_running_out_of_memory_is_503_for_that_request(start_with: Start, trigger: Path) -> None:
    server = start_with("memory")
    trigger.touch()
    reply = httpx.post(f"{server.url}/completion", json=LONG, timeout=SOON)
    assert reply.status_code == 503
    assert error_of(reply.text) == (503, "Not enough memory for this request")
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("stuck", "a step didn't return within 1 seconds"),
        ("dies", "the engine failed: gone"),
    ],
)
def test_an_engine_that_cannot_go_on_ends_the_server(
    start_with: Start, trigger: Path, fault: str, says: str
) -> None:
    server = start_with(fault, "--step-timeout", "1", "--metrics")
    url, others = f"{server.url}/completion", []
    with concurrent.futures.ThreadPoolExecutor() as pool:

        def one_runs_too_and_one_waits() -> None:
            others.extend(pool.submit(httpx.post, url, json=LONG, timeout=SOON) for _ in range(2))
            while _n_deferred(server) < 1:
                pass

        lines = run_into(server, trigger, one_runs_too_and_one_waits)
        assert error_of(lines[-1]) == (500, says)
        health = httpx.get(f"{server.url}/health")
        assert [error_of(other.result().text) for other in others] == [(500, says)] * 2
    assert (health.status_code, health.json()["error"]["message"]) == (
        503,
        f"The engine has stopped: {says}",
    )
    assert server.process.wait(SOON) == 1
    assert said(server) == f"error: {says}"


def test_even_an_interpreter_that_hangs_is_ended(start_with: Start, trigger: Path) -> None:
    server = start_with("stuck_inside", "--step-timeout", "1")
    with pytest.raises(httpx.TransportError):
        run_into(server, trigger)
    assert server.process.wait(SOON) == 1
    assert "Timeout (0:00:02)!" in server.log.read_text()


def test_sigterm_lets_the_running_finish_and_takes_no_more(
    start_with: Start,
) -> None:
    server = start_with("none")
    body = LONG | {"n_predict": 400, "stream": True}
    with httpx.stream("POST", f"{server.url}/completion", json=body) as reply:
        lines = reply.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        while (late := httpx.get(f"{server.url}/health")).status_code == 200:
            pass
        *_, last = [line for line in lines if line]
    assert (late.status_code, late.json()["error"]["message"]) == (
        503,
        "The server is shutting down",
    )
    assert json.loads(last.removeprefix("data: "))["tokens_predicted"] == 400
    assert server.process.wait(SOON) == 0


def test_what_takes_too_long_after_sigterm_is_told_so(start_with: Start) -> None:
    server = start_with("none", "--stop-timeout", "1")
    with httpx.stream("POST", f"{server.url}/completion", json=LONG | {"stream": True}) as reply:
        lines = reply.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        *_, last = [line for line in lines if line]
    assert error_of(last) == (503, "the server is shutting down")
    assert server.process.wait(SOON) == 0


def test_a_second_signal_ends_it_at_once(start_with: Start) -> None:
    server = start_with("none", "--stop-timeout", "1000")
    with (
        contextlib.suppress(httpx.TransportError),
        httpx.stream("POST", f"{server.url}/completion", json=LONG | {"stream": True}) as reply,
    ):
        for number, _ in enumerate(reply.iter_lines()):
            if number in (0, 20):
                server.process.send_signal(signal.SIGINT)
    assert server.process.wait(SOON) == 0


def test_clients_that_vanish_leave_the_server_as_it_was(start_with: Start) -> None:
    server, rng = start_with("none"), random.Random(3)
    before = httpx.get(f"{server.url}/slots").json()

    def vanish(seconds: float, cut: int, stream: bool) -> None:
        body = json.dumps(LONG | {"stream": stream, "n": rng.choice((1, 2))}).encode()
        head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), SOON) as client:
            client.sendall((head.encode() + body)[:cut])
            time.sleep(seconds)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for _ in range(100):
            cut = rng.choice((10, 90, 10000))
            pool.submit(vanish, rng.random() / 4, cut, rng.random() < 0.5)
    reply = httpx.post(f"{server.url}/completion", json=LONG | {"n_predict": 3}, timeout=SOON)
    assert reply.json()["tokens_predicted"] == 3
    slots = httpx.get(f"{server.url}/slots").json()
    assert [slot["is_processing"] for slot in slots] == [False] * len(before)


def test_a_slot_comes_back_after_a_restart(start_with: Start, tmp_path: Path) -> None:
    body = LONG | {"n_predict": 5, "prompt": "in an 0123456789", "temperature": 0, "id_slot": 0}
    path = ("--slot-save-path", str(tmp_path))
    first = start_with("none", *path)
    said_then = httpx.post(f"{first.url}/completion", json=body).json()
    saved = httpx.post(f"{first.url}/slots/0?action=save", json={"filename": "s"}).json()
    first.stop()
    second = start_with("none", *path)
    restored = httpx.post(f"{second.url}/slots/0?action=restore", json={"filename": "s"}).json()
    says_now = httpx.post(f"{second.url}/completion", json=body).json()
    assert (saved["n_saved"], saved["n_written"]) == (restored["n_restored"], restored["n_read"])
    assert says_now["content"] == said_then["content"]
    assert [r["timings"]["cache_n"] for r in (said_then, says_now)] == [0, 13]
