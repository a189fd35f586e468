"""Tells a client how much of its prompt is evaluated."""

from engine.events import Begin, Progress
from engine.run import Run
from engine.slots.slot import Slot
from engine.steps.serving import Serving


class ProgressReports:
    """Reports at the start, after every batch of a prompt, and at its end."""

    def __init__(self, serving: Serving, n_batch: int) -> None:
        """`n_batch` is how many prompt tokens lie between two reports."""
        self._serving = serving
        self._n_batch = n_batch

    def started(self, slot: Slot, run: Run) -> None:
        """A slot took the task up, with what its cache holds of the prompt."""
        n_past = len(slot.cache.tokens)
        run.report_at = n_past + self._n_batch
        if run.task.stream and run.task.return_progress:
            self._report(slot, run)
        elif run.task.stream:
            self._serving.emit(run, Begin(len(run.task.prompt), n_past))

    def when_due(self, slot: Slot, run: Run) -> None:
        """Report after every `n_batch` tokens of the prompt, and at its end."""
        done = len(slot.cache.tokens)
        if done < len(run.task.prompt) and done < run.report_at:
            return
        run.report_at = done + self._n_batch
        if run.task.stream and run.task.return_progress:
            self._report(slot, run)

    def _report(self, slot: Slot, run: Run) -> None:
        progress = Progress(
            total=len(run.task.prompt),
            cache=run.clock.n_prompt_cached,
            processed=len(slot.cache.tokens),
            time_ms=run.clock.elapsed_ms,
            timings=run.clock.timings() if run.task.timings_per_token else None,
        )
        self._serving.emit(run, progress)
