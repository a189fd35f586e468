"""The scheduler: `step()` is what serving is. Runs on the engine thread and knows no other."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.caches.prompt_cache import PromptCache
from engine.events import FailureKind
from engine.metrics import Metrics
from engine.run import Request
from engine.running.runner import Runner
from engine.settings import ContextSizes, EngineSettings
from engine.slots.files import SlotFileFigures, SlotFiles
from engine.slots.pool import ReasoningEnd, SlotPool
from engine.slots.slot import Slot, SlotView
from engine.speculation import make_speculator
from engine.steps.admission import Admission
from engine.steps.context_shift import ContextShift
from engine.steps.decode import Decode
from engine.steps.draft import Draft
from engine.steps.prefill import Prefill
from engine.steps.progress import ProgressReports
from engine.steps.sample import Sample
from engine.steps.serving import Serving
from engine.vocabulary import Vocabulary

log = logging.getLogger(__name__)

Refuse = Callable[[FailureKind, str], None]


@dataclass(frozen=True, slots=True, eq=False)
class _SlotAction:
    """Something to do with a slot as soon as it has no task."""

    slot: Slot
    act: Callable[[Slot], None]
    refuse: Refuse


class Scheduler:
    """Slots, the tasks that wait for one, and the model that serves them."""

    def __init__(
        self,
        model: Any,
        vocabulary: Vocabulary,
        settings: EngineSettings,
        sizes: ContextSizes,
        draft: Any = None,
    ) -> None:
        """`model` is mlx-lm's (int32 [1, T] and caches give logits [1, T, V]), or a Runner.

        `draft` is a smaller model of the same kind, with the same vocabulary, for speculation.
        Raises ModelError where speculation can't be set up.
        """
        spare = settings.n_ubatch
        runner = (
            model if isinstance(model, Runner) else Runner(model, vocabulary.n_tokens, spare=spare)
        )
        runner.prepare()
        draft_runner = None if draft is None else Runner(draft, vocabulary.n_tokens)
        speculator = make_speculator(settings.speculation, runner, draft_runner)
        self._slots = _slots(runner, settings, sizes, speculates=speculator is not None)
        self._slot_actions: deque[_SlotAction] = deque()
        self._slot_files = SlotFiles(runner.model, vocabulary.n_tokens)
        self._metrics = Metrics()
        self._serving = serving = Serving(
            self._slots,
            vocabulary,
            self._metrics,
            n_draft_max=0 if speculator is None else speculator.n_max,
        )
        rotation = runner.rotation
        progress = ProgressReports(serving, settings.n_batch)
        self._admission = Admission(self._slots, vocabulary, settings.n_predict)
        self._context_shift: ContextShift | None = None
        if settings.ctx_shift and rotation is not None:
            self._context_shift = ContextShift(rotation, serving, add_bos=vocabulary.add_bos)
        elif settings.ctx_shift:
            log.warning("this model's cache can't be shifted: a full context ends the generation")
        self._prefill = Prefill(runner, settings, serving, progress)
        self._draft = None if speculator is None else Draft(speculator, serving)
        self._decode = Decode(runner, serving)
        shifts = self._context_shift is not None
        self._sample = Sample(
            vocabulary, serving, progress, self._draft, special=settings.special, shifts=shifts
        )

    def step(self) -> None:
        """Serve everyone once: each generating slot comes out a token further, or several."""
        self._serving.drop_the_gone()
        self._act_on_slots()
        self._admission.admit()
        if self._context_shift is not None:
            self._context_shift.run()
        n_prompt_tokens = self._prefill.run()
        if self._draft is not None:
            self._draft.run()
        decoded = self._decode.run()
        if n_prompt_tokens or decoded:
            self._serving.count_step()
        for one in decoded:
            self._sample.run(one)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do until a task comes."""
        pending = len(self._admission) > 0 or len(self._slot_actions) > 0
        return not pending and all(slot.run is None for slot in self._slots)

    def submit(self, request: Request) -> None:
        """Serve this task when a slot is free for it, and one for each of its children."""
        self._admission.add(request)

    def when_free(self, id_slot: int, act: Callable[[Slot], None], refuse: Refuse) -> None:
        """Call `act` before the next step in which the slot has no task, or `refuse` instead."""
        self._slot_actions.append(_SlotAction(self._slots.at(id_slot), act, refuse))

    def save_slot(self, slot: Slot, path: Path) -> SlotFileFigures:
        """Write what a slot holds to a file; raises OSError."""
        return self._slot_files.save(slot.cache, path)

    def restore_slot(self, slot: Slot, path: Path) -> SlotFileFigures:
        """Read what a slot is to hold from a file; raises SlotFileError, the slot unchanged."""
        slot.cache, figures = self._slot_files.restore(path, slot.n_ctx)
        return figures

    def erase_slot(self, slot: Slot) -> int:
        """Forget what a slot holds; how many tokens that were."""
        n_tokens = len(slot.cache.tokens)
        slot.cache.clear()
        return n_tokens

    def end_reasoning(self, completion_id: str) -> ReasoningEnd:
        """Have a running completion's reasoning end with its next token."""
        return self._slots.end_reasoning(completion_id)

    def cancel(self, task_id: int) -> None:
        """Forget a task, waiting or running, without a further event.

        Children that still need its prompt are forgotten with it.
        """
        self._admission.forget(task_id)
        self._serving.cancel(task_id)

    def fail_all(self, kind: FailureKind, message: str) -> None:
        """End every task, waiting or running, and empty the caches of those that ran."""
        self._admission.refuse_all(kind, message)
        while self._slot_actions:
            self._slot_actions.popleft().refuse(kind, message)
        self.fail_running(kind, message)

    def fail_running(self, kind: FailureKind, message: str) -> None:
        """End every running task and empty its cache: nobody knows how far it was computed."""
        self._serving.fail_all(kind, message)

    def failure_of(self, error: Exception) -> tuple[FailureKind, str]:
        """What a client is told of an error; if memory ran out, what can be freed is freed."""
        return self._serving.failure_of(error)

    def slots(self) -> list[SlotView]:
        """Every slot as it is now."""
        return self._slots.views()

    def metrics(self, *, reset_recent: bool) -> Metrics:
        """A copy of the counts; with `reset_recent` the rates start afresh."""
        copy = self._metrics.copy()
        copy.n_slots_processing = sum(slot.run is not None for slot in self._slots)
        copy.n_tasks_deferred = len(self._admission)
        if reset_recent:
            self._metrics.reset_recent()
        return copy

    def _act_on_slots(self) -> None:
        """Do what was asked for with slots that have no task now, in the order of asking."""
        for action in tuple(self._slot_actions):
            if action.slot.run is None:
                self._slot_actions.remove(action)
                action.act(action.slot)


def _slots(
    runner: Runner, settings: EngineSettings, sizes: ContextSizes, *, speculates: bool
) -> SlotPool:
    """As many empty slots as there are to be, and the prompt cache if there is to be one."""
    slots = [
        Slot(id, sizes.n_ctx_slot, runner.new_cache(), speculates=speculates)
        for id in range(sizes.n_slots)
    ]
    mib = settings.cache_ram_mib
    return SlotPool(
        slots,
        PromptCache(mib, sizes.n_ctx) if mib else None,
        similarity=settings.slot_prompt_similarity,
        save_idle=settings.cache_idle_slots,
        clear_idle=settings.kv_unified or settings.n_parallel < 0,
    )
