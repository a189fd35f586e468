"""Decode: one step for every slot that has a next token, and for what is guessed to follow it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from engine.run import Run, Stage
from engine.running.runner import Logits, Runner
from engine.slots.slot import Slot
from engine.steps.serving import Serving
from engine.timings import now_us

_WORTH_TRYING = 32
"""Larger batches of guesses take long to try out and save little more."""


@dataclass(slots=True, eq=False)
class Decoded:
    """What a slot's next token is chosen from, and those after it as far as guesses go."""

    slot: Slot
    run: Run
    n_before: int
    """Tokens in the slot before this step."""
    logits: Iterable[Logits]
    """After the next token and after each guessed one: float32 [V] each, evaluated when due."""


class Decode:
    """Runs the model over the slots' next tokens, in batches as large as leave each exact."""

    def __init__(self, runner: Runner, serving: Serving) -> None:
        self._runner = runner
        self._serving = serving

    @cached_property
    def _batch(self) -> int:
        """How many tokens are decoded at once; tried out when two first are, as it takes long."""
        n_slots = len(self._serving.slots)
        most = n_slots * (1 + self._serving.n_draft_max)
        return self._runner.largest_batch(n_slots, max(n_slots, min(most, _WORTH_TRYING)))

    def run(self) -> list[Decoded]:
        """Evaluate each generating slot's next token, and as many guesses as go with it."""
        generating = self._serving.at(Stage.GENERATING)
        if not generating:
            return []
        started = now_us()
        n_before = [len(slot.cache.tokens) for slot, _ in generating]
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
        decoded = []
        for (slot, run), n, first in zip(generating, n_before, rows, strict=True):
            decoded.append(Decoded(slot, run, n, self._with_the_rest(slot, run, first)))
            children = self._share_prompt(slot, run)
            decoded += [Decoded(other, child, n, first) for other, child in children]
        return sorted(decoded, key=lambda one: one.slot.id)

    def _share_prompt(self, slot: Slot, run: Run) -> list[tuple[Slot, Run]]:
        """Give the children that waited for a prompt their copies of it."""
        children = self._serving.waiting_for(run)
        for other, child in children:
            other.cache = slot.cache.copy()
            child.clock = replace(run.clock)
            child.sampler.prime(child.task.prompt)
            child.stage = Stage.GENERATING
        return children

    def _forward(self, generating: list[tuple[Slot, Run]]) -> list[list[Logits]]:
        """Run the model over each slot's next token and its first guesses; logits of each."""
        if len(generating) == 1 and not generating[0][1].draft:
            batch = each = 1
        else:
            batch = self._batch
            each = max(1, batch // len(generating))
        tokens = [_to_decode(run)[:each] for _, run in generating]
        held = zip(generating, tokens, strict=True)
        caches = [slot.cache for (slot, _), own in held for _ in own]
        logits = iter(self._runner.decode([t for own in tokens for t in own], caches, batch))
        return [[next(logits) for _ in own] for own in tokens]

    def _with_the_rest(self, slot: Slot, run: Run, first: list[Logits]) -> Iterator[Logits]:
        """The first logits, then those of further guesses, which a wrong one makes needless."""
        yield from first
        tokens, at = _to_decode(run), len(first)
        while at < len(tokens):
            batch = tokens[at : at + self._batch]
            try:
                rows = self._runner.decode(batch, [slot.cache] * len(batch), self._batch)
            except Exception:
                # Nobody knows how far it was computed.
                slot.cache.clear()
                raise
            yield from rows
            at += len(batch)


def _to_decode(run: Run) -> list[int]:
    return [run.next_token, *run.draft]
