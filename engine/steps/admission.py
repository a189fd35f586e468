"""Admission: tasks that wait, each put into a slot as soon as one is free for it."""

import logging
from collections import deque
from dataclasses import replace

from engine.events import Failed, FailureKind
from engine.run import Request, Run, Stage, send
from engine.sampling import Sampler, SamplingParams
from engine.slots.pool import SlotPool
from engine.slots.slot import Slot
from engine.text import TextStream
from engine.vocabulary import Vocabulary

log = logging.getLogger(__name__)


class Admission:
    """The queue before the slots: first come, first served."""

    def __init__(self, slots: SlotPool, vocabulary: Vocabulary, n_predict: int) -> None:
        """`n_predict` is the limit for tasks that set none; -1 for no limit."""
        self._slots = slots
        self._vocabulary = vocabulary
        self._n_predict = n_predict
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        """How many tasks wait."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Let a task wait for a slot, and each of its children for one of its own."""
        if len(request.everyone) > len(self._slots):
            message = f"{len(request.everyone)} completions need as many slots"
            _refuse(request, "invalid_request", message)
            return
        self._waiting.append(request)

    def forget(self, task_id: int) -> None:
        """Let a task wait no longer, without an event."""
        self._waiting = deque(
            replace(request, children=tuple(c for c in request.children if c.id != task_id))
            for request in self._waiting
            if request.id != task_id
        )

    def refuse_all(self, kind: FailureKind, message: str) -> None:
        """Fail every task that waits."""
        while self._waiting:
            _refuse(self._waiting.popleft(), kind, message)

    def admit(self) -> None:
        """Put every waiting task whose slot is free into it."""
        for request in tuple(self._waiting):
            if not self._slots.any_free:
                return
            try:
                chosen = self._slots.choose(request.task, len(request.children))
                if chosen is None and request.children:
                    # Whoever came later could keep it from ever finding enough free slots.
                    return
                if chosen is None:
                    continue
                self._launch(*chosen, request)
            except Exception as error:
                log.exception("task %d", request.id)
                _refuse(request, "server", f"got exception: {error}")
            self._waiting.remove(request)

    def _launch(self, slot: Slot, others: list[Slot], request: Request) -> None:
        """Put a task into its slot and its children into `others`, all or none of them."""
        if not all(0 <= token < self._vocabulary.n_tokens for token in request.task.prompt):
            _refuse(request, "invalid_request", "Prompt contains invalid tokens")
            return
        try:
            run, *children = [self._new_run(one) for one in request.everyone]
        except Exception as error:
            message = f"Failed to initialize samplers: {error}"
            _refuse(request, "invalid_request", message)
            return
        slot.run = run
        for other, child in zip(others, children, strict=True):
            child.parent, child.stage = run, Stage.WAITING
            other.run = child
        self._slots.started()

    def _new_run(self, request: Request) -> Run:
        task = request.task
        n_predict = task.n_predict if task.n_predict != -1 else self._n_predict
        sampler = self._new_sampler(task.sampling)
        return Run(request, sampler, TextStream(task.stop, task.n_indent), n_predict)

    def _new_sampler(self, params: SamplingParams) -> Sampler:
        vocabulary = self._vocabulary
        end = vocabulary.eot if vocabulary.eot is not None else vocabulary.eos
        return Sampler(
            params,
            vocabulary.n_tokens,
            vocabulary,
            suppressed=vocabulary.suppress,
            end_token=end,
        )


def _refuse(request: Request, kind: FailureKind, message: str) -> None:
    """Tell a request that isn't in a slot, and its children, that they failed."""
    for one in request.everyone:
        send(one, Failed(kind, message))
