"""Slots saved to files and restored: the same text follows, and nothing else is let in."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.slots.files import InvalidSlotFile, InvalidTokens, SlotFileError, SlotTooSmall
from engine.slots.tensor_file import TensorFile, write
from tests.stepped import Server, tokens_of
from tests.tiny_llama import TinyModel, greedy, load, task

PROMPT = "what a slot holds for a while"


def filled(model: TinyModel | None = None, prompt: str = PROMPT) -> Server:
    server = Server(model, n_parallel=1)
    server.answer(task(prompt, n_predict=4))
    return server


def save(server: Server, path: Path) -> int:
    [slot] = server.scheduler._slots
    return server.scheduler.save_slot(slot, path).n_tokens


def restore(server: Server, path: Path) -> int:
    [slot] = server.scheduler._slots
    return server.scheduler.restore_slot(slot, path).n_tokens


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "slot.bin"
    assert save(filled(), path) == 32
    return path


def test_a_restored_slot_goes_on_as_if_nothing_had_happened(saved: Path) -> None:
    server = Server(load(), n_parallel=1)
    assert restore(server, saved) == 32
    events = server.answer(task(PROMPT, n_predict=20))
    assert tokens_of(events) == greedy(list(PROMPT.encode()), 20)
    assert events[-1].timings.cache_n == 28  # type: ignore[union-attr]


def test_windows_and_their_checkpoints_are_saved_too(tmp_path: Path) -> None:
    expected = tokens_of(Server(load(window=16)).answer(task(PROMPT, n_predict=20)))
    save(filled(load(window=16)), tmp_path / "slot.bin")
    server = Server(load(window=16), n_parallel=1)
    assert restore(server, tmp_path / "slot.bin") == 32
    events = server.answer(task(PROMPT, n_predict=20))
    assert tokens_of(events) == expected
    assert events[-1].timings.cache_n == 28  # type: ignore[union-attr]


def test_an_empty_slot_is_saved_as_one(tmp_path: Path) -> None:
    assert save(Server(n_parallel=1), tmp_path / "empty") == 0
    assert restore(filled(), tmp_path / "empty") == 0


def test_16_bit_caches_come_back(tmp_path: Path) -> None:
    def half() -> TinyModel:
        model = load()
        model.model.set_dtype(mx.bfloat16)
        return model

    save(filled(half()), tmp_path / "slot.bin")
    assert restore(Server(half(), n_parallel=1), tmp_path / "slot.bin") == 32


def test_another_models_file_is_refused(saved: Path) -> None:
    other = load()
    other.model.layers[1].mlp.down_proj.weight *= 2
    for server in (Server(other, n_parallel=1), Server(load(window=16), n_parallel=1)):
        with pytest.raises(InvalidSlotFile):
            restore(server, saved)


def test_a_failed_restore_changes_nothing(saved: Path) -> None:
    server = filled(prompt="something else")
    saved.write_bytes(saved.read_bytes()[:-1])
    with pytest.raises(InvalidSlotFile):
        restore(server, saved)
    assert server.final(task("something else")).timings.cache_n == 13


def test_no_changed_byte_and_no_missing_one_gets_by(saved: Path) -> None:
    data, rng, server = saved.read_bytes(), random.Random(5), Server(n_parallel=1)
    header = int.from_bytes(data[:8], "little") + 8
    places = {*range(10), *rng.sample(range(header), 150), *rng.sample(range(len(data)), 50)}
    for at in places:
        saved.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        with pytest.raises(InvalidSlotFile):
            restore(server, saved)
    for length in (0, 7, 8, header - 1, header, len(data) - 1, *rng.sample(range(len(data)), 20)):
        saved.write_bytes(data[:length])
        with pytest.raises(InvalidSlotFile):
            restore(server, saved)
    saved.write_bytes(data + b"\0")
    with pytest.raises(InvalidSlotFile):
        restore(server, saved)


def forged(saved: Path, change: Any) -> None:
    """Write the file anew, checksum and all, with something changed."""
    with TensorFile(saved) as file:
        metadata, tensors = dict(file.metadata), file.read()
    description = json.loads(metadata["description"])
    change(description, tensors)
    write(saved, tensors, metadata | {"description": json.dumps(description)})


def _set(place: int, value: mx.array) -> Any:
    return lambda description, tensors: tensors.__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_set(0, mx.array([1] * 600, mx.int32)), SlotTooSmall),
        (_set(0, mx.array([259] * 32, mx.int32)), InvalidTokens),
        (_set(0, mx.array([-1] * 32, mx.int32)), InvalidTokens),
        (_set(0, mx.array([1] * 31, mx.int32)), InvalidSlotFile),
        (_set(0, mx.array([[1] * 32], mx.int32)), InvalidSlotFile),
        (_set(0, mx.array([], mx.int32)), InvalidSlotFile),
        (_set(1, mx.zeros((1, 2, 32, 16), mx.float16)), InvalidSlotFile),
        (_set(1, mx.zeros((1, 2, 33, 16))), InvalidSlotFile),
        (_set(1, mx.zeros((1, 1, 32, 32))), InvalidSlotFile),
        (_set(1, mx.zeros((32,))), InvalidSlotFile),
        (lambda d, t: t.pop(), InvalidSlotFile),
        (lambda d, t: t.append(t[0]), InvalidSlotFile),
        (lambda d, t: d.clear(), InvalidSlotFile),
        (lambda d, t: d.update(states=7), InvalidSlotFile),
        (lambda d, t: d["states"].append([]), InvalidSlotFile),
        (lambda d, t: d["states"][0].pop(), InvalidSlotFile),
        (lambda d, t: d["states"][0].append(1), InvalidSlotFile),
        (lambda d, t: d["states"][0].__setitem__(2, 31), InvalidSlotFile),
        (lambda d, t: d["states"][0].__setitem__(2, 32.0), InvalidSlotFile),
        (lambda d, t: d["states"][0].__setitem__(0, None), InvalidSlotFile),
        (lambda d, t: d.update(checkpoints=[[5, [0]]]), InvalidSlotFile),
        (lambda d, t: d.update(checkpoints=[["x", {}]]), InvalidSlotFile),
        (lambda d, t: d.update(checkpoints=[[5, []]] * 2000), InvalidSlotFile),
    ],
)
def test_a_forged_file_is_refused(saved: Path, change: Any, error: type[SlotFileError]) -> None:
    forged(saved, change)
    server = filled(prompt="something else")
    with pytest.raises(error):
        restore(server, saved)
    assert server.final(task("something else")).timings.cache_n == 13


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(InvalidSlotFile):
            restore(Server(n_parallel=1), path)


def test_other_tools_can_read_it(saved: Path) -> None:
    tensors = mx.load(str(saved), format="safetensors")
    tokens = np.array(tensors["0"]).tolist()  # type: ignore[call-overload]
    assert bytes(tokens[:29]).decode() == PROMPT


def test_a_full_disk_leaves_what_was_there(saved: Path) -> None:
    before = saved.read_bytes()
    program = """
import resource, signal, sys
from pathlib import Path
from tests.test_engine_slot_files import filled, save

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
server = filled(prompt="x" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    save(server, Path(sys.argv[1]))
except OSError as error:
    print(type(error).__name__)
"""
    command = [sys.executable, "-c", program, str(saved)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("OSError\n", "")
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_process_killed_while_saving_leaves_whole_files(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tests.test_engine_slot_files import filled, save

server = filled(prompt="x" * 400)
while True:
    save(server, Path(sys.argv[1]))
    print(flush=True)
"""
    path = tmp_path / "slot.bin"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert restore(Server(n_parallel=1), path) == 403
    # What the dead process left behind is in nobody's way.
    assert save(filled(), path) == 32
    assert restore(Server(n_parallel=1), path) == 32
