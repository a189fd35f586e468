"""Memory that was freed goes back to the system, also from an engine that has nothing to do."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import pytest

import engine.engine
from engine.engine import Engine
from engine.memory import give_back, limit_free_buffers
from tests.tiny_llama import load, settings

SOON = 5.0
_MIB = 1 << 20
_BLOCK, _N_BLOCKS = 1 << 16, 1600

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="only glibc can be told to give memory back",
)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def freed() -> Iterator[int]:
    """100 MiB were used and freed below a block that is still used; what is resident then."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    blocks = [ctypes.c_void_p(libc.malloc(_BLOCK)) for _ in range(_N_BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, _BLOCK)
    *freed, used = blocks
    for block in freed:
        libc.free(block)
    yield resident()
    libc.free(used)


def test_freed_memory_is_given_back(freed: int) -> None:
    give_back()
    assert freed - resident() > 50 * _MIB


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Engine]]:
    """Start an engine that takes any moment for a pause, and stop it after the test."""
    monkeypatch.setattr(engine.engine, "_PAUSE_SECONDS", 0.0)
    started = Engine(settings(), load)

    def start() -> Engine:
        started.start()
        return started

    yield start
    assert started.stop(SOON)


def test_an_engine_with_nothing_to_do_gives_it_back(idle: Callable[[], Engine], freed: int) -> None:
    assert len(idle().slots().result(SOON)) == 2
    end = time.monotonic() + SOON
    while freed - resident() <= 50 * _MIB and time.monotonic() < end:
        time.sleep(0.01)
    assert freed - resident() > 50 * _MIB


def test_little_of_what_is_freed_is_kept_meanwhile() -> None:
    limit_free_buffers()
    mx.clear_cache()
    for n_mib in range(1, 33):
        mx.eval(mx.zeros((n_mib, _MIB // 4)))
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    assert mx.get_cache_memory() <= (32 * _MIB if on_cpu else 1 << 30)
