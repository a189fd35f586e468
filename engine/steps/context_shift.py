"""Context shift: makes room in slots that are full."""

from engine.caches.rotation import KeyRotation
from engine.run import Run, Stage
from engine.slots.slot import Slot
from engine.steps.serving import Serving


class ContextShift:
    """Before a slot's last place is taken, drops tokens between those kept and the newest."""

    def __init__(self, rotation: KeyRotation, serving: Serving, *, add_bos: bool) -> None:
        """`rotation` moves the keys up; with `add_bos` one token more is kept."""
        self._rotation = rotation
        self._serving = serving
        self._add_bos = add_bos

    def run(self) -> None:
        """Make room in every slot that has none for another token after the next."""
        for slot, run in self._serving.at(Stage.GENERATING):
            if len(slot.cache.tokens) + 1 < slot.n_ctx:
                continue
            if run.shares_prompt:
                message = "context shift cannot be used for shared prompt"
                self._serving.fail(slot, run, "server", message)
                continue
            try:
                self._shift(slot, run)
            except Exception as error:
                self._serving.fail_with(slot, run, error)

    def _shift(self, slot: Slot, run: Run) -> None:
        task, n_tokens = run.task, len(slot.cache.tokens)
        n_keep = task.n_keep if task.n_keep >= 0 else len(task.prompt)
        n_keep = min(n_keep + self._add_bos, slot.n_ctx - 4)
        n_left = n_tokens - n_keep
        n_discard = min(task.n_discard or n_left // 2, n_left - 1)
        if n_discard > 0:
            slot.cache.drop(n_keep, n_keep + n_discard, self._rotation)
        run.truncated = True
