"""Fixtures that start the real server, as a process of its own, and stop it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from codegen.capture.probes import Setup
from codegen.capture.server import RunningServer, our_command, serving

StartServer = Callable[..., RunningServer]


@pytest.fixture(scope="module")
def start_server() -> Iterator[StartServer]:
    """`start_server(*arguments, model="made:llama")` gives a ready server.

    The same model and arguments give the same server; all are stopped after the module.
    """
    running: dict[tuple[str, tuple[str, ...]], RunningServer] = {}
    with ExitStack() as stack:

        def start(*arguments: str, model: str = "made:llama") -> RunningServer:
            key = (model, arguments)
            if key not in running:
                setup = Setup("test", model, arguments)
                running[key] = stack.enter_context(serving(our_command(), setup))
            return running[key]

        yield start
