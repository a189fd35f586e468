"""A measuring process that answers each line it is given with a line, both JSON."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from codegen.capture.server import ROOT


class OwnProcess:
    """A running one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: object) -> Any:
        """Its answer; raises RuntimeError if it ended."""
        stdin = self._process.stdin
        if stdin is None:
            raise RuntimeError("the process has no pipes")
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        return self.hear()

    def hear(self) -> Any:
        """The line that it says next, unasked."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the measuring process ended")
        return json.loads(line)


@contextmanager
def own_process(module: str, *arguments: str) -> Iterator[OwnProcess]:
    """Run a module of the bench, ended with the block."""
    command: Sequence[str] = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield OwnProcess(process)
        process.terminate()
