"""Fixtures that any test may ask for, and how the tests share the cores of a machine."""

import os

import pytest

from tests.server import start_server

# Several servers share the cores here: BLAS threads that wait for each other would only lose.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__all__ = ["start_server"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one process, which starts its servers once; replays are spread."""
    for item in items:
        if item.path.name != "test_replay.py":
            item.add_marker(pytest.mark.xdist_group(item.path.name))
