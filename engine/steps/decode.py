"""Decode: one step for every slot that has a next token."""

from dataclasses import replace
from functools import cached_property

from engine.run import Run, Stage
from engine.runner import Logits, Runner
from engine.slot import Slot
from engine.steps.serving import Serving
from engine.timings import now_us


class Decode:
    """Runs the model over the slots' next tokens, in batches as large as leave each exact."""

    def __init__(self, runner: Runner, serving: Serving) -> None:
        self._runner = runner
        self._serving = serving

    @cached_property
    def _batch(self) -> int:
        """How many slots are decoded at once; tried out when two first are, as it takes long."""
        n_slots = len(self._serving.slots)
        return self._runner.largest_batch(n_slots, n_slots)

    def run(self) -> list[tuple[Slot, Run, Logits]]:
        """Evaluate each generating slot's next token; its logits are float32 [V]."""
        generating = self._serving.at(Stage.GENERATING)
        if not generating:
            return []
        started = now_us()
        try:
            rows = self._forward(generating)
        except Exception as error:
            for slot, run in generating:
                self._serving.fail_with(slot, run, error)
            return []
        n_prompt_tokens = 0
        for _, run in generating:
            if run.clock.n_decoded == 0:
                run.clock.prompt_evaluated(1)
                n_prompt_tokens += 1
        if n_prompt_tokens:
            self._serving.metrics.add_prompt(n_prompt_tokens, now_us() - started)
        decoded = [(slot, run, row) for (slot, run), row in zip(generating, rows, strict=True)]
        for slot, run, row in tuple(decoded):
            decoded += [(*child, row) for child in self._share_prompt(slot, run)]
        return sorted(decoded, key=lambda one: one[0].id)

    def _share_prompt(self, slot: Slot, run: Run) -> list[tuple[Slot, Run]]:
        """Give the children that waited for a prompt their copies of it."""
        children = self._serving.waiting_for(run)
        for other, child in children:
            other.cache = slot.cache.copy()
            child.clock = replace(run.clock)
            child.sampler.prime(child.task.prompt)
            child.stage = Stage.GENERATING
        return children

    def _forward(self, generating: list[tuple[Slot, Run]]) -> Logits:
        """Run the model over one token per slot: float32 [slots, V]."""
        tokens = [run.next_token for _, run in generating]
        caches = [slot.cache for slot, _ in generating]
        return self._runner.decode(tokens, caches, self._batch if len(tokens) > 1 else 1)
