"""Prefill: a chunk of the prompts, all but each one's last token."""

import mlx.core as mx

from engine.cache import SequenceCache
from engine.run import Run, Stage
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.slot import Slot
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
        n_past = self._reusable(slot.cache, task)
        # The last token is always evaluated: its logits are needed.
        n_past = slot.cache.keep_first(min(n_past, n_prompt - 1))
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
        if task.n_cache_reuse > 0 and rotation is not None:
            n_past = cache.reuse_chunks(task.prompt, n_past, task.n_cache_reuse, rotation)
        return n_past

    def _evaluate(self, slot: Slot, run: Run, budget: int) -> int:
        """Evaluate at most `budget` more tokens of the prompt; returns how many it were."""
        cache, prompt, done = slot.cache, run.task.prompt, len(slot.cache.tokens)
        chunk = prompt[done : min(done + budget, self._checkpoints.next_stop(cache, len(prompt)))]
        if chunk:
            started = now_us()
            self._runner.prefill(cache, chunk)
            run.clock.prompt_evaluated(len(chunk))
            self._serving.metrics.add_prompt(len(chunk), now_us() - started)
            self._checkpoints.add_when_due(cache, run)
            self._progress.when_due(slot, run)
        if len(cache.tokens) == len(prompt) - 1:
            run.sampler.prime(prompt)
            run.next_token = prompt[-1]
            run.stage = Stage.GENERATING
        return len(chunk)


class _Checkpoints:
    """Where in a prompt the state of what can't be rolled back is remembered."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings

    def next_stop(self, cache: SequenceCache, n_prompt: int) -> int:
        """Where the next chunk has to end at the latest."""
        stops = self._places(n_prompt) if self._wanted(cache) else []
        return min((at for at in stops if at > len(cache.tokens)), default=n_prompt - 1)

    def add_when_due(self, cache: SequenceCache, run: Run) -> None:
        """Make one if the cache ends at a place for it."""
        due = len(cache.tokens) in self._places(len(run.task.prompt))
        if due and self._wanted(cache):
            most, min_step = self._settings.n_ctx_checkpoints, self._settings.checkpoint_min_step
            cache.add_checkpoint(run.request.id, most, min_step)

    def _places(self, n_prompt: int) -> list[int]:
        """Near a prompt's end, as llama-server has them."""
        near = (n_prompt - self._settings.n_ubatch - 4, n_prompt - 4)
        return [at for at in near if at > 0]

    def _wanted(self, cache: SequenceCache) -> bool:
        return self._settings.n_ctx_checkpoints > 0 and cache.needs_checkpoints


def prefill_chunk(n_ubatch: int) -> int:
    """Prompt tokens to evaluate at once: on a CPU attention over more than 256 only gets slower."""
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    return max(1, min(n_ubatch, 256) if on_cpu else n_ubatch)
