"""Sends the probes of a group to a server and gives the canonical answers."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from codegen.capture.canonical import Replies
from codegen.capture.captures import Capture
from codegen.capture.covers import replies_of
from codegen.capture.http import Answer, running, send
from codegen.capture.probes import Group, Probe, Request, Setup
from codegen.capture.server import RunningServer, ServerError, serving, start
from codegen.model import Spec

_TRIES = 20


class Servers:
    """Servers of one command by set-up: one that is kept, or a fresh one for each group."""

    def __init__(self, command: Sequence[str], stack: ExitStack, *, keep: bool) -> None:
        self._command = command
        self._stack = stack
        self._keep = keep
        self._kept: dict[str, RunningServer] = {}

    def answers(
        self, group: Group, setup: Setup, spec: Spec, replies: Replies
    ) -> Iterator[Capture]:
        """Each probe of the group with the answer to it, in order."""
        if group.loading:
            for probe in group.probes:
                yield _capture(spec, replies, probe, self._while_loading(setup, probe.request))
        elif group.fresh or not self._keep:
            with serving(self._command, setup) as server:
                yield from _all(server, group, spec, replies)
        else:
            if setup.name not in self._kept:
                self._kept[setup.name] = self._stack.enter_context(serving(self._command, setup))
            yield from _all(self._kept[setup.name], group, spec, replies)

    def _while_loading(self, setup: Setup, request: Request) -> Answer:
        """The answer of a server that was still loading right after it; raises ServerError."""
        for _ in range(_TRIES):
            server = start(self._command, setup)
            try:
                answer = _first_answer(server, request)
                if answer and send(server.port, server.health).status == 503:
                    return answer
            except OSError:
                pass
            finally:
                server.stop()
        raise ServerError(f"{setup.name} was never seen loading")


def _first_answer(server: RunningServer, request: Request) -> Answer | None:
    """Ask until somebody listens; None if the process ends before."""
    while server.process.poll() is None:
        try:
            return send(server.port, request)
        except ConnectionError:
            continue
    return None


def _all(server: RunningServer, group: Group, spec: Spec, replies: Replies) -> Iterator[Capture]:
    for probe in group.probes:
        try:
            with running(server.port, probe.during):
                answer = send(server.port, probe.request)
        except OSError as error:
            state = server.process.poll()
            ended = "" if state is None else f"; the server ended with status {state}"
            raise ServerError(f"{group.name}/{probe.name}: no answer: {error}{ended}") from error
        yield _capture(spec, replies, probe, answer)


def _capture(spec: Spec, replies: Replies, probe: Probe, answer: Answer) -> Capture:
    return Capture(probe, replies.answer(answer.data(), replies_of(spec, probe.request)))
