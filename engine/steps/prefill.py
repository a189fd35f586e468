"""Prefill: a chunk of the prompts, all but each one's last token."""

import mlx.core as mx

from engine.caches.sequence import SequenceCache
from engine.run import Run, Stage
from engine.running.runner import Runner
from engine.settings import EngineSettings
from engine.slots.slot import Slot
from engine.steps.progress import ProgressReports
from engine.steps.serving import Serving
from engine.task import CompletionTask
from engine.timings import now_us


class Prefill:
    """Evaluates prompts in the order they came, a chunk at a time."""

    def __init__(
        self,
        runner: Runner,
        settings: EngineSettings,
        serving: Serving,
        progress: ProgressReports,
    ) -> None:
        self._runner = runner
        self._chunk = prefill_chunk(settings.n_ubatch)
        self._serving = serving
        self._progress = progress
        self._checkpoints = _Checkpoints(settings)

    def run(self) -> int:
        """Evaluate no more than one chunk of tokens, of all prompts together.

        The last token of a prompt is left to the decode step: only its logits are wanted.
        Returns how many tokens it were.
        """
        budget = self._chunk
        unread = self._serving.at(Stage.STARTED, Stage.PROMPT)
        for slot, run in sorted(unread, key=lambda pair: pair[1].request.id):
            if budget <= 0:
                break
            try:
                if run.stage is Stage.STARTED and not self._start(slot, run):
                    continue
                budget -= self._evaluate(slot, run, budget)
            except Exception as error:
                self._serving.fail_with(slot, run, error)
        return self._chunk - budget

    def _start(self, slot: Slot, run: Run) -> bool:
        """Find what the cache holds of the prompt already; False if the task ended here."""
        run.clock.start()
        task = run.task
        n_prompt = len(task.prompt)
        if n_prompt == 0:
            for pair in [(slot, run), *self._serving.waiting_for(run)]:
                self._serving.finish(*pair)
            return False
        if n_prompt >= slot.n_ctx:
            message = (
                f"request ({n_prompt} tokens) exceeds the available context size "
                f"({slot.n_ctx} tokens), try increasing it"
            )
            self._serving.fail(slot, run, "exceed_context_size", message)
            return False
        n_past = slot.cache.reuse_first(self._reusable(slot.cache, task), n_prompt)
        run.batch_end = n_past
        run.clock.n_prompt_cached = n_past
        run.stage = Stage.PROMPT
        self._serving.metrics.n_prompt_cached += n_past
        self._progress.started(slot, run)
        return True

    def _reusable(self, cache: SequenceCache, task: CompletionTask) -> int:
        """How many tokens of a task's prompt the cache begins with, pieces of it moved there."""
        if not task.cache_prompt:
            return 0
        n_past = cache.common_prefix(task.prompt)
        rotation = self._runner.rotation
        movable = rotation is not None and not cache.needs_checkpoints
        if task.n_cache_reuse > 0 and rotation is not None and movable:
            n_past = cache.reuse_chunks(task.prompt, n_past, task.n_cache_reuse, rotation)
        return n_past

    def _evaluate(self, slot: Slot, run: Run, budget: int) -> int:
        """Evaluate at most `budget` more tokens of the prompt; returns how many it were."""
        cache, prompt, done = slot.cache, run.task.prompt, len(slot.cache.tokens)
        self._checkpoints.add_when_due(cache, run)
        chunk = prompt[done : min(done + budget, run.batch_end, len(prompt) - 1)]
        if chunk:
            started = now_us()
            self._runner.prefill(cache, chunk)
            run.clock.prompt_evaluated(len(chunk))
            self._serving.metrics.add_prompt(len(chunk), now_us() - started)
            self._progress.when_due(slot, run)
        if len(cache.tokens) == len(prompt) - 1:
            self._checkpoints.add_when_due(cache, run)
            run.sampler.prime(prompt)
            run.next_token = prompt[-1]
            run.stage = Stage.GENERATING
        return len(chunk)


class _Checkpoints:
    """Remembers the state of what can't be rolled back at the starts of llama-server's batches."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings

    def add_when_due(self, cache: SequenceCache, run: Run) -> None:
        """Begin the next batch if the last one is done, with a checkpoint if that is worth it."""
        start, task = len(cache.tokens), run.task
        if start < run.batch_end:
            return
        most, min_step = self._settings.n_ctx_checkpoints, self._settings.checkpoint_min_step
        if most <= 0 or not cache.needs_checkpoints:
            run.batch_end = len(task.prompt)
            return
        apart = cache.checkpoints[-1].n_tokens + min_step if cache.checkpoints else -1
        run.batch_end = self._batch_end(start, task, apart)
        n_prompt, last_user = len(task.prompt), max(task.user_starts, default=-1)
        near_end = n_prompt < run.batch_end + self._settings.n_ubatch
        worth_it = near_end or run.batch_end == n_prompt or start in task.user_starts
        spaced = start > apart or near_end or start == last_user
        if start > 0 and worth_it and spaced:
            cache.add_checkpoint(run.request.id, most, min_step)

    def _batch_end(self, start: int, task: CompletionTask, apart: int) -> int:
        """Batches end before the last tokens, and where users' messages begin."""
        n_prompt, n_batch = len(task.prompt), self._settings.n_batch
        ends = [start + n_batch, n_prompt]
        ends += [n_prompt - min(n_batch, n) for n in (4 + self._settings.n_ubatch, 4)]
        last_user = max(task.user_starts, default=-1)
        ends += [at for at in task.user_starts if at > apart or at == last_user]
        return min(end for end in ends if end > start)


def prefill_chunk(n_ubatch: int) -> int:
    """Prompt tokens to evaluate at once: on a CPU attention over more than 256 only gets slower."""
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    return max(1, min(n_ubatch, 256) if on_cpu else n_ubatch)
