"""Sends the probes of a group to a server and gives the canonical answers."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from codegen.capture.canonical import Replies
from codegen.capture.captures import Capture
from codegen.capture.covers import replies_of
from codegen.capture.http import Answer, running, send
from codegen.capture.probes import Group, Probe, Setup
from codegen.capture.server import RunningServer, ServerError, serving, start
from codegen.model import Spec

_TRIES = 20


class Servers:
    """Servers of one command: one that is kept for each set-up, or a fresh one for each group."""

    def __init__(
        self, command: Sequence[str], spec: Spec, root: Path, stack: ExitStack, *, keep: bool
    ) -> None:
        """`root` is the folder of the spec; kept servers live until the stack closes."""
        self._command = command
        self._spec = spec
        self._replies = Replies.read(root)
        self._stack = stack
        self._keep = keep
        self._kept: dict[Setup, RunningServer] = {}

    def answers(self, group: Group, setup: Setup) -> Iterator[Capture]:
        """Each probe of the group with the answer to it, in order; raises ServerError."""
        for probe, answer in self._sent(group, setup):
            names = replies_of(self._spec, probe.request, setup)
            yield Capture(probe, self._replies.answer(answer.data(), names))

    def _sent(self, group: Group, setup: Setup) -> Iterator[tuple[Probe, Answer]]:
        if group.loading:
            yield from zip(group.probes, self._while_loading(group, setup), strict=True)
        elif group.fresh or not self._keep:
            with serving(self._command, setup) as server:
                yield from _all(server, group)
        else:
            if setup not in self._kept:
                self._kept[setup] = self._stack.enter_context(serving(self._command, setup))
            yield from _all(self._kept[setup], group)

    def _while_loading(self, group: Group, setup: Setup) -> list[Answer]:
        """The answers of a server that was still loading after the last; raises ServerError."""
        for _ in range(_TRIES):
            server = start(self._command, setup)
            try:
                if not _listens(server):
                    break
                answers = [send(server.port, probe.request) for probe in group.probes]
                if send(server.port, server.health).status == 503:
                    return answers
            except OSError:
                continue
            finally:
                server.stop()
        raise ServerError(f"{setup.name} was never seen loading")


def _listens(server: RunningServer) -> bool:
    """Ask until somebody answers; false if the process ends before."""
    while server.process.poll() is None:
        try:
            send(server.port, server.health)
        except ConnectionError:
            continue
        return True
    return False


def _all(server: RunningServer, group: Group) -> Iterator[tuple[Probe, Answer]]:
    for probe in group.probes:
        try:
            with running(server.port, probe.during) as id:
                answer = send(server.port, probe.request.naming(id), meanwhile=probe.meanwhile)
        except OSError as error:
            state = server.process.poll()
            ended = "" if state is None else f"; the server ended with status {state}"
            raise ServerError(f"{group.name}/{probe.name}: no answer: {error}{ended}") from error
        yield probe, answer
