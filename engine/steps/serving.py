"""The tasks that are in slots: how far each is, what its client is told, and how it ends."""

import logging

import mlx.core as mx

from engine.events import Event, Failed, FailureKind
from engine.metrics import Metrics
from engine.run import Run, Stage, send
from engine.slots.pool import SlotPool
from engine.slots.slot import Slot
from engine.timings import now_us
from engine.vocabulary import Vocabulary

log = logging.getLogger(__name__)


class Serving:
    """Slots with their tasks, shared by all parts of a step."""

    def __init__(
        self, slots: SlotPool, vocabulary: Vocabulary, metrics: Metrics, *, n_draft_max: int = 0
    ) -> None:
        """`n_draft_max` is the most tokens that are guessed at once."""
        self.slots = slots
        self.metrics = metrics
        self.n_draft_max = n_draft_max
        self._vocabulary = vocabulary
        self._gone: list[int] = []

    def at(self, *stages: Stage) -> list[tuple[Slot, Run]]:
        """Slots whose task is at one of `stages`."""
        running = [(slot, slot.run) for slot in self.slots if slot.run is not None]
        return [(slot, run) for slot, run in running if run.stage in stages]

    def waiting_for(self, parent: Run) -> list[tuple[Slot, Run]]:
        """The slots whose task needs this one's prompt."""
        waiting = self.at(Stage.WAITING) if parent.request.children else []
        return [(slot, run) for slot, run in waiting if run.parent is parent]

    def emit(self, run: Run, event: Event) -> None:
        """Tell a task's client; a client that can't be told has its task cancelled later."""
        if not send(run.request, event):
            self._gone.append(run.request.id)

    def drop_the_gone(self) -> None:
        """End the tasks whose events nobody takes any longer."""
        while self._gone:
            self.cancel(self._gone.pop())

    def cancel(self, task_id: int) -> None:
        """End a task without a further event, and children that still need its prompt."""
        for slot in self.slots:
            if slot.run is not None and slot.run.request.id == task_id:
                for child_slot, child in self.waiting_for(slot.run):
                    self._release(child_slot, child)
                self._release(slot, slot.run)

    def finish(self, slot: Slot, run: Run) -> None:
        """Tell the whole answer and free the slot."""
        probs = run.probs
        if probs and run.stop_type == "word":
            word = run.stopping_word
            n_cut = len(self._vocabulary.encode(word, add_special=False, parse_special=False))
            probs = probs[: max(0, len(probs) - n_cut)]
        final = slot.final(run, tuple(probs))
        self._release(slot, run)
        self.emit(run, final)

    def fail_all(self, kind: FailureKind, message: str) -> None:
        """End every task and empty its cache: nobody knows how far it was computed."""
        for slot in self.slots:
            if slot.run is not None:
                slot.cache.clear()
                self.fail(slot, slot.run, kind, message)

    def fail_with(
        self, slot: Slot, run: Run, error: Exception, *, cache_is_good: bool = False
    ) -> None:
        """End a task that raised; its cache may be half computed, then it is emptied."""
        log.error("slot %d, task %d", slot.id, run.request.id, exc_info=error)
        if not cache_is_good:
            slot.cache.clear()
        self.fail(slot, run, *self.failure_of(error))

    def fail(self, slot: Slot, run: Run, kind: FailureKind, message: str) -> None:
        """End a task, and the children that wait for its prompt, with an error."""
        exceeded = kind == "exceed_context_size"
        n_prompt_tokens, n_ctx = (len(run.task.prompt), slot.n_ctx) if exceeded else (0, 0)
        for one_slot, one in [*self.waiting_for(run), (slot, run)]:
            self._release(one_slot, one)
            self.emit(one, Failed(kind, message, n_prompt_tokens, n_ctx))

    def failure_of(self, error: Exception) -> tuple[FailureKind, str]:
        """What a client is told of an error; if memory ran out, what can be freed is freed."""
        if not out_of_memory(error):
            return "server", f"got exception: {error}"
        self.slots.free_memory()
        mx.clear_cache()
        return "out_of_memory", str(error)

    def count_step(self) -> None:
        """The model ran."""
        self.metrics.n_decode += 1
        self.metrics.n_busy_slots += sum(slot.run is not None for slot in self.slots)
        longest = max(len(slot.cache.tokens) for slot in self.slots)
        self.metrics.n_tokens_max = max(self.metrics.n_tokens_max, longest)

    def _release(self, slot: Slot, run: Run) -> None:
        if run.clock.n_decoded > 0:
            self.metrics.add_generation(run.clock)
            self.metrics.add_drafts(run.n_accepted, self.n_draft_max)
        slot.release(now_us())
        if run.parent is not None:
            # The parent's slot has the prompt.
            slot.cache.clear()


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out; MLX raises no type of its own for that."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "allocate" in text or "out of memory" in text
