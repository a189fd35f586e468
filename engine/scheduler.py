"""The scheduler: `step()` is what serving is. Runs on the engine thread and knows no other."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from engine.batching import forward, largest_exact_batch
from engine.cache import SequenceCache, token_array
from engine.events import Begin, Candidate, Event, Failed, FailureKind, Progress, TokenProbs
from engine.metrics import Metrics
from engine.prompt_cache import PromptCache
from engine.rotation import key_rotation
from engine.run import Request, Run, Stage, send
from engine.sampling import Sampler, SamplingParams
from engine.settings import ContextSizes, EngineSettings
from engine.slot import Slot, SlotView
from engine.slot_files import SlotFileFigures, SlotFiles
from engine.slot_pool import SlotPool
from engine.task import CompletionTask
from engine.text import TextStream
from engine.timings import now_us
from engine.vocabulary import SamplingVocabulary, Vocabulary

log = logging.getLogger(__name__)

Logits = np.ndarray[Any, np.dtype[np.float32]]


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
        self, model: Any, vocabulary: Vocabulary, settings: EngineSettings, sizes: ContextSizes
    ) -> None:
        """`model` is mlx-lm's: called with int32 [1, T] and caches, it gives logits [1, T, V]."""
        self._model = model
        self._vocabulary = vocabulary
        self._sampling_vocabulary = SamplingVocabulary(vocabulary)
        self._settings = settings
        self._chunk = prefill_chunk(settings.n_ubatch)
        self._waiting: deque[Request] = deque()
        self._slot_actions: deque[_SlotAction] = deque()
        self._slot_files = SlotFiles(model, vocabulary.n_tokens)
        self._gone: list[int] = []
        self._metrics = Metrics()
        self._slots = _slots(model, settings, sizes)
        self._rotation = key_rotation(model, make_prompt_cache(model))
        self._ctx_shift = settings.ctx_shift and self._rotation is not None
        if settings.ctx_shift and not self._ctx_shift:
            log.warning("this model's cache can't be shifted: a full context ends the generation")

    @cached_property
    def _batch(self) -> int:
        """How many slots are decoded at once; tried out when two first are, as it takes long."""
        trial = [make_prompt_cache(self._model) for _ in self._slots]
        size = largest_exact_batch(self._model, trial)
        log.info("slots are decoded in batches of %d", size)
        return size

    def step(self) -> None:
        """Serve everyone once: each generating slot comes out one token further."""
        self._drop_the_gone()
        self._act_on_slots()
        self._admit()
        self._shift_full_contexts()
        n_prompt_tokens = self._prefill()
        decoded = self._decode()
        if n_prompt_tokens or decoded:
            self._count_step()
        for slot, run, logits in decoded:
            self._sample(slot, run, logits)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do until a task comes."""
        pending = self._waiting or self._slot_actions
        return not pending and all(slot.run is None for slot in self._slots)

    def submit(self, request: Request) -> None:
        """Serve this task when a slot is free for it, and one for each of its children."""
        if len(request.everyone) > len(self._slots):
            message = f"{len(request.everyone)} completions need as many slots"
            self._refuse(request, "invalid_request", message)
            return
        self._waiting.append(request)

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

    def cancel(self, task_id: int) -> None:
        """Forget a task, waiting or running, without a further event.

        Children that still need its prompt are forgotten with it.
        """
        self._waiting = deque(
            replace(request, children=tuple(c for c in request.children if c.id != task_id))
            for request in self._waiting
            if request.id != task_id
        )
        for slot in self._slots:
            if slot.run is not None and slot.run.request.id == task_id:
                for child_slot, child in self._waiting_for(slot.run):
                    self._release(child_slot, child)
                self._release(slot, slot.run)

    def fail_all(self, kind: FailureKind, message: str) -> None:
        """End every task, waiting or running, and empty the caches of those that ran."""
        while self._waiting:
            self._refuse(self._waiting.popleft(), kind, message)
        while self._slot_actions:
            self._slot_actions.popleft().refuse(kind, message)
        self.fail_running(kind, message)

    def fail_running(self, kind: FailureKind, message: str) -> None:
        """End every running task and empty its cache: nobody knows how far it was computed."""
        for slot in self._slots:
            if slot.run is not None:
                slot.cache.clear()
                self._fail(slot, slot.run, kind, message)

    def failure_of(self, error: Exception) -> tuple[FailureKind, str]:
        """What a client is told of an error; if memory ran out, what can be freed is freed."""
        if not out_of_memory(error):
            return "server", f"got exception: {error}"
        self._slots.free_memory()
        mx.clear_cache()
        return "out_of_memory", str(error)

    def slots(self) -> list[SlotView]:
        """Every slot as it is now."""
        return self._slots.views()

    def metrics(self, *, reset_recent: bool) -> Metrics:
        """A copy of the counts; with `reset_recent` the rates start afresh."""
        copy = self._metrics.copy()
        copy.n_slots_processing = sum(slot.run is not None for slot in self._slots)
        copy.n_tasks_deferred = len(self._waiting)
        if reset_recent:
            self._metrics.reset_recent()
        return copy

    # Act: what waits for a slot to be free.

    def _act_on_slots(self) -> None:
        """Do what was asked for with slots that have no task now, in the order of asking."""
        for action in tuple(self._slot_actions):
            if action.slot.run is None:
                self._slot_actions.remove(action)
                action.act(action.slot)

    # Admit: waiting tasks into free slots.

    def _admit(self) -> None:
        """Put every waiting task whose slot is free into it, first come, first served."""
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
                self._refuse(request, "server", f"got exception: {error}")
            self._waiting.remove(request)

    def _launch(self, slot: Slot, others: list[Slot], request: Request) -> None:
        """Put a task into its slot and its children into `others`, all or none of them."""
        if not all(0 <= token < self._vocabulary.n_tokens for token in request.task.prompt):
            self._refuse(request, "invalid_request", "Prompt contains invalid tokens")
            return
        try:
            run, *children = [self._new_run(one) for one in request.everyone]
        except Exception as error:
            message = f"Failed to initialize samplers: {error}"
            self._refuse(request, "invalid_request", message)
            return
        slot.run = run
        for other, child in zip(others, children, strict=True):
            child.parent, child.stage = run, Stage.WAITING
            other.run = child
        self._slots.started()

    def _new_run(self, request: Request) -> Run:
        task = request.task
        n_predict = task.n_predict if task.n_predict != -1 else self._settings.n_predict
        sampler = self._new_sampler(task.sampling)
        return Run(request, sampler, TextStream(task.stop, task.n_indent), n_predict)

    def _refuse(self, request: Request, kind: FailureKind, message: str) -> None:
        """Tell a request that isn't in a slot, and its children, that they failed."""
        for one in request.everyone:
            send(one, Failed(kind, message))

    def _new_sampler(self, params: SamplingParams) -> Sampler:
        vocabulary = self._vocabulary
        end = vocabulary.eot if vocabulary.eot is not None else vocabulary.eos
        return Sampler(
            params,
            vocabulary.n_tokens,
            self._sampling_vocabulary,
            suppressed=vocabulary.suppress,
            end_token=end,
        )

    # Prefill: a chunk of the prompts, all but each one's last token.

    def _prefill(self) -> int:
        """Evaluate prompts in the order they came, no more than one chunk of tokens together.

        The last token of a prompt is left to the decode step: only its logits are wanted.
        Returns how many tokens it were.
        """
        budget = self._chunk
        for slot, run in sorted(
            self._running(Stage.STARTED, Stage.PROMPT), key=lambda pair: pair[1].request.id
        ):
            if budget <= 0:
                break
            try:
                if run.stage is Stage.STARTED and not self._start(slot, run):
                    continue
                budget -= self._evaluate_prompt(slot, run, budget)
            except Exception as error:
                self._fail_with(slot, run, error)
        return self._chunk - budget

    def _start(self, slot: Slot, run: Run) -> bool:
        """Find what the cache holds of the prompt already; False if the task ended here."""
        run.clock.start()
        task = run.task
        n_prompt = len(task.prompt)
        if n_prompt == 0:
            for pair in [(slot, run), *self._waiting_for(run)]:
                self._finish(*pair)
            return False
        if n_prompt >= slot.n_ctx:
            message = (
                f"request ({n_prompt} tokens) exceeds the available context size "
                f"({slot.n_ctx} tokens), try increasing it"
            )
            self._fail(slot, run, "exceed_context_size", message)
            return False
        n_past = self._reusable(slot.cache, task)
        # The last token is always evaluated: its logits are needed.
        n_past = slot.cache.keep_first(min(n_past, n_prompt - 1))
        run.clock.n_prompt_cached = n_past
        run.report_at = n_past + self._settings.n_batch
        run.stage = Stage.PROMPT
        self._metrics.n_prompt_cached += n_past
        if task.stream and task.return_progress:
            self._report_progress(slot, run)
        elif task.stream:
            self._emit(run, Begin(n_prompt, n_past))
        return True

    def _reusable(self, cache: SequenceCache, task: CompletionTask) -> int:
        """How many tokens of a task's prompt the cache begins with, pieces of it moved there."""
        if not task.cache_prompt:
            return 0
        n_past = cache.common_prefix(task.prompt)
        if task.n_cache_reuse > 0 and self._rotation is not None:
            n_past = cache.reuse_chunks(task.prompt, n_past, task.n_cache_reuse, self._rotation)
        return n_past

    def _evaluate_prompt(self, slot: Slot, run: Run, budget: int) -> int:
        """Evaluate at most `budget` more tokens of the prompt; returns how many it were."""
        prompt, done = run.task.prompt, len(slot.cache.tokens)
        chunk = prompt[done : min(done + budget, self._next_stop(slot.cache, len(prompt)))]
        if chunk:
            started = now_us()
            self._model(token_array(chunk), cache=slot.cache.layers)
            mx.eval(slot.cache.states())
            slot.cache.evaluated(chunk)
            run.clock.prompt_evaluated(len(chunk))
            self._metrics.add_prompt(len(chunk), now_us() - started)
            self._add_checkpoint_when_due(slot, run)
            self._report_progress_when_due(slot, run)
        if len(slot.cache.tokens) == len(prompt) - 1:
            run.sampler.prime(prompt)
            run.next_token = prompt[-1]
            run.stage = Stage.GENERATING
        return len(chunk)

    def _checkpoints(self, n_prompt: int) -> list[int]:
        """Where in a prompt checkpoints are made: near its end, as llama-server does."""
        near = (n_prompt - self._settings.n_ubatch - 4, n_prompt - 4)
        return [at for at in near if at > 0]

    def _next_stop(self, cache: SequenceCache, n_prompt: int) -> int:
        """Where the next chunk has to end at the latest."""
        stops = self._checkpoints(n_prompt) if self._wants_checkpoints(cache) else []
        return min((at for at in stops if at > len(cache.tokens)), default=n_prompt - 1)

    def _add_checkpoint_when_due(self, slot: Slot, run: Run) -> None:
        cache, settings = slot.cache, self._settings
        due = len(cache.tokens) in self._checkpoints(len(run.task.prompt))
        if due and self._wants_checkpoints(cache):
            most, min_step = settings.n_ctx_checkpoints, settings.checkpoint_min_step
            cache.add_checkpoint(run.request.id, most, min_step)

    def _wants_checkpoints(self, cache: SequenceCache) -> bool:
        return self._settings.n_ctx_checkpoints > 0 and cache.needs_checkpoints

    # Shift: make room in slots that are full.

    def _shift_full_contexts(self) -> None:
        """Before a slot's last place is taken, drop tokens between those kept and the newest."""
        if not self._ctx_shift:
            return
        for slot, run in self._running(Stage.GENERATING):
            if len(slot.cache.tokens) + 1 < slot.n_ctx:
                continue
            if run.shares_prompt:
                message = "context shift cannot be used for shared prompt"
                self._fail(slot, run, "server", message)
                continue
            try:
                self._shift(slot, run)
            except Exception as error:
                self._fail_with(slot, run, error)

    def _shift(self, slot: Slot, run: Run) -> None:
        task, n_tokens = run.task, len(slot.cache.tokens)
        n_keep = task.n_keep if task.n_keep >= 0 else len(task.prompt)
        n_keep = min(n_keep + self._vocabulary.add_bos, slot.n_ctx - 4)
        n_left = n_tokens - n_keep
        n_discard = min(task.n_discard or n_left // 2, n_left - 1)
        if n_discard > 0 and self._rotation is not None:
            slot.cache.drop(n_keep, n_keep + n_discard, self._rotation)
        run.truncated = True

    # Decode: one step for every slot that has a next token.

    def _decode(self) -> list[tuple[Slot, Run, Logits]]:
        """Evaluate each generating slot's next token; its logits are float32 [V]."""
        generating = self._running(Stage.GENERATING)
        if not generating:
            return []
        started = now_us()
        try:
            rows = self._forward(generating)
        except Exception as error:
            for slot, run in generating:
                self._fail_with(slot, run, error)
            return []
        n_prompt_tokens = 0
        for slot, run in generating:
            slot.cache.evaluated([run.next_token])
            if run.clock.n_decoded == 0:
                run.clock.prompt_evaluated(1)
                n_prompt_tokens += 1
        if n_prompt_tokens:
            self._metrics.add_prompt(n_prompt_tokens, now_us() - started)
        decoded = [(slot, run, row) for (slot, run), row in zip(generating, rows, strict=True)]
        for slot, run, row in tuple(decoded):
            decoded += [(*child, row) for child in self._share_prompt(slot, run)]
        return sorted(decoded, key=lambda one: one[0].id)

    def _share_prompt(self, slot: Slot, run: Run) -> list[tuple[Slot, Run]]:
        """Give the children that waited for a prompt their copies of it."""
        children = self._waiting_for(run)
        for other, child in children:
            other.cache = slot.cache.copy()
            child.clock = replace(run.clock)
            child.sampler.prime(child.task.prompt)
            child.stage = Stage.GENERATING
        return children

    def _forward(self, generating: list[tuple[Slot, Run]]) -> Logits:
        """Run the model over one token per slot: float32 [slots, V]."""
        tokens = [run.next_token for _, run in generating]
        caches = [slot.cache.layers for slot, _ in generating]
        size = self._batch if len(tokens) > 1 else 1
        batches = [
            forward(self._model, tokens[at : at + size], caches[at : at + size])
            for at in range(0, len(tokens), size)
        ]
        logits = mx.concatenate(batches)
        logits = logits[:, : self._vocabulary.n_tokens].astype(mx.float32)
        mx.eval(logits)  # lets other threads run meanwhile, which numpy's conversion wouldn't
        return np.array(logits)

    # Sample, emit, retire.

    def _sample(self, slot: Slot, run: Run, logits: Logits) -> None:
        """Choose a slot's next token, tell the client, and end the task if that was the last."""
        try:
            if run.clock.n_decoded == 0:
                self._report_progress_when_due(slot, run)
            token = run.sampler.sample(logits)
            run.sampler.accept(token)
            run.clock.token_sampled()
            self._take_token(slot, run, token)
            if not run.has_next_token:
                self._finish(slot, run)
        except Exception as error:
            self._fail_with(slot, run, error, cache_is_good=True)

    def _take_token(self, slot: Slot, run: Run, token: int) -> None:
        task = run.task
        eog = self._vocabulary.is_eog(token)
        special = self._settings.special or token in task.preserved_tokens
        shown = run.take_token(token, self._vocabulary.piece(token, special=special), eog=eog)
        if shown.complete:
            probs = self._probs(run, token, shown.text) if task.sampling.n_probs > 0 else None
            if task.stream:
                self._emit(run, run.token_event(token, shown, probs))
            elif probs is not None:
                run.probs.append(probs)
        full = len(slot.cache.tokens) + 1 >= slot.n_ctx
        run.check_limits(shown, eog=eog, context_full=full and not self._ctx_shift)

    def _probs(self, run: Run, token: int, text: bytes) -> TokenProbs:
        """The probabilities a client asked for, of the token just sampled."""
        probs, special = run.sampler.probs(), self._settings.special
        piece = self._vocabulary.piece
        top = tuple(Candidate(id, piece(id, special=special), prob) for id, prob in probs.top)
        return TokenProbs(token, text, probs.prob, top)

    def _finish(self, slot: Slot, run: Run) -> None:
        """Tell the whole answer and free the slot."""
        probs = run.probs
        if probs and run.stop_type == "word":
            word = run.stopping_word
            n_cut = len(self._vocabulary.encode(word, add_special=False, parse_special=False))
            probs = probs[: max(0, len(probs) - n_cut)]
        final = slot.final(run, tuple(probs))
        self._release(slot, run)
        self._emit(run, final)

    def _fail_with(
        self, slot: Slot, run: Run, error: Exception, *, cache_is_good: bool = False
    ) -> None:
        """End a task that raised; its cache may be half computed, then it is emptied."""
        log.error("slot %d, task %d", slot.id, run.request.id, exc_info=error)
        if not cache_is_good:
            slot.cache.clear()
        self._fail(slot, run, *self.failure_of(error))

    def _fail(self, slot: Slot, run: Run, kind: FailureKind, message: str) -> None:
        exceeded = kind == "exceed_context_size"
        n_prompt_tokens, n_ctx = (len(run.task.prompt), slot.n_ctx) if exceeded else (0, 0)
        for one_slot, one in [*self._waiting_for(run), (slot, run)]:
            self._release(one_slot, one)
            self._emit(one, Failed(kind, message, n_prompt_tokens, n_ctx))

    def _release(self, slot: Slot, run: Run) -> None:
        if run.clock.n_decoded > 0:
            self._metrics.add_generation(run.clock)
        slot.release(now_us())
        if run.parent is not None:
            # The parent's slot has the prompt.
            slot.cache.clear()

    # Telling.

    def _report_progress_when_due(self, slot: Slot, run: Run) -> None:
        """Report after every `n_batch` tokens of the prompt, and at its end."""
        done = len(slot.cache.tokens)
        if done < len(run.task.prompt) and done < run.report_at:
            return
        run.report_at = done + self._settings.n_batch
        if run.task.stream and run.task.return_progress:
            self._report_progress(slot, run)

    def _report_progress(self, slot: Slot, run: Run) -> None:
        progress = Progress(
            total=len(run.task.prompt),
            cache=run.clock.n_prompt_cached,
            processed=len(slot.cache.tokens),
            time_ms=run.clock.elapsed_ms,
            timings=run.clock.timings() if run.task.timings_per_token else None,
        )
        self._emit(run, progress)

    def _emit(self, run: Run, event: Event) -> None:
        if not send(run.request, event):
            self._gone.append(run.request.id)

    def _drop_the_gone(self) -> None:
        """End the tasks whose events nobody takes any longer."""
        while self._gone:
            self.cancel(self._gone.pop())

    # Counting.

    def _running(self, *stages: Stage) -> list[tuple[Slot, Run]]:
        """Slots whose task is at one of `stages`."""
        running = [(slot, slot.run) for slot in self._slots if slot.run is not None]
        return [(slot, run) for slot, run in running if run.stage in stages]

    def _waiting_for(self, parent: Run) -> list[tuple[Slot, Run]]:
        """The slots whose task needs this one's prompt."""
        waiting = self._running(Stage.WAITING) if parent.request.children else []
        return [(slot, run) for slot, run in waiting if run.parent is parent]

    def _count_step(self) -> None:
        self._metrics.n_decode += 1
        self._metrics.n_busy_slots += sum(slot.run is not None for slot in self._slots)
        longest = max(len(slot.cache.tokens) for slot in self._slots)
        self._metrics.n_tokens_max = max(self._metrics.n_tokens_max, longest)


def _slots(model: Any, settings: EngineSettings, sizes: ContextSizes) -> SlotPool:
    """As many empty slots as there are to be, and the prompt cache if there is to be one."""
    slots = [
        Slot(id, sizes.n_ctx_slot, SequenceCache(lambda: make_prompt_cache(model)))
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


def prefill_chunk(n_ubatch: int) -> int:
    """Prompt tokens to evaluate at once: on a CPU attention over more than 256 only gets slower."""
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    return max(1, min(n_ubatch, 256) if on_cpu else n_ubatch)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out; MLX raises no type of its own for that."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "allocate" in text or "out of memory" in text
