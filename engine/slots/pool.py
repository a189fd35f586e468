"""All slots: which one a task goes to, and the prompts kept in memory for when they come again."""

from collections.abc import Iterator, Sequence
from typing import Literal

from engine.caches.prompt_cache import PromptCache
from engine.slots.slot import Slot, SlotView
from engine.task import CompletionTask

ReasoningEnd = Literal["not_running", "not_controlled", "asked"]
"""What came of asking a completion to end its reasoning; "asked" also if none is going on."""

_LEAST_KEPT = 0.5
"""A slot that would lose more than this share of its tokens has its prompt saved first."""


class SlotPool:
    """The slots by their ids, and the prompt cache behind them; the rules are llama-server's."""

    def __init__(
        self,
        slots: Sequence[Slot],
        prompt_cache: PromptCache | None,
        *,
        similarity: float,
        save_idle: bool,
        clear_idle: bool,
    ) -> None:
        """A slot is preferred if it holds more than `similarity` of a prompt; 0 turns that off.

        With `save_idle` the prompts of idle slots are kept whenever a task starts; with
        `clear_idle` these slots are emptied then.
        """
        self._slots = list(slots)
        self._prompt_cache = prompt_cache
        self._similarity = similarity
        self._save_idle = save_idle
        self._clear_idle = clear_idle

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def any_free(self) -> bool:
        """Whether some slot has no task."""
        return any(slot.run is None for slot in self._slots)

    def at(self, id_slot: int) -> Slot:
        """The slot asked for by number: any number stands for one, modulo how many there are."""
        return self._slots[(id_slot & 0xFFFF_FFFF_FFFF_FFFF) % len(self._slots)]

    def views(self) -> list[SlotView]:
        """Every slot as it is now."""
        return [slot.view() for slot in self._slots]

    def end_reasoning(self, completion_id: str) -> ReasoningEnd:
        """Force the end of a reasoning in the first slot that serves this completion."""
        for slot in self._slots:
            if slot.run is not None and slot.run.task.completion_id == completion_id:
                if not slot.run.task.sampling.reasoning_control:
                    return "not_controlled"
                slot.run.sampler.end_reasoning()
                return "asked"
        return "not_running"

    def choose(self, task: CompletionTask, n_children: int = 0) -> tuple[Slot, list[Slot]] | None:
        """A free slot for a task and others for its children; None if there aren't enough.

        It is the slot asked for, else the one with most of the prompt, else the longest unused.
        What it loses by that is kept in the prompt cache, and what serves better taken from there.
        """
        free = [slot for slot in self._slots if slot.run is None]
        chosen, loses = self._chosen(free, task)
        if chosen is None or len(free) <= n_children:
            return None
        if loses and self._prompt_cache is not None:
            self._prompt_cache.save(chosen.cache)
            better = self._prompt_cache.take(chosen.cache, task.prompt)
            if better is not None:
                chosen.cache = better
            self._prompt_cache.shrink()
        return chosen, [slot for slot in free if slot is not chosen][:n_children]

    def started(self) -> None:
        """A task was put into its slot: keep the prompts of those that have none."""
        if not self._save_idle or self._prompt_cache is None:
            return
        for slot in self._slots:
            if slot.run is None:
                self._prompt_cache.save(slot.cache)
                self._prompt_cache.shrink()
                if self._clear_idle:
                    slot.cache.clear()

    def free_memory(self) -> None:
        """Memory ran out: let go of what isn't in a slot."""
        if self._prompt_cache is not None:
            self._prompt_cache.clear()

    def _chosen(self, free: list[Slot], task: CompletionTask) -> tuple[Slot | None, bool]:
        """The slot for a task, and whether much of what it holds goes with that."""
        prompt = task.prompt
        if task.id_slot != -1:
            slot = self.at(task.id_slot)
            if slot.run is not None:
                return None, False
            return slot, bool(self._similarity) and self._loses(slot, prompt)
        if self._similarity and prompt:
            shares = [(slot.cache.common_prefix(prompt) / len(prompt), slot) for slot in free]
            best = max((share for share, _ in shares), default=0.0)
            if best > self._similarity:
                slot = next(slot for share, slot in shares if share == best)
                return slot, self._loses(slot, prompt)
        # Of slots used equally long ago upstream takes the last.
        return min(reversed(free), key=lambda slot: slot.t_last_used, default=None), True

    def _loses(self, slot: Slot, prompt: list[int]) -> bool:
        cache = slot.cache
        if not cache.tokens:
            return False
        shared = cache.common_prefix(prompt)
        if not prompt or shared / len(prompt) <= self._similarity:
            shared = 0
        return shared / len(cache.tokens) < _LEAST_KEPT
