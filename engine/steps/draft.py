"""Draft: guesses of what follows in each slot, for the decode step to check."""

from engine.run import Run, Stage
from engine.slots.slot import Slot
from engine.speculation import Speculator
from engine.steps.serving import Serving


class Draft:
    """Has guesses made where there is room for them."""

    def __init__(self, speculator: Speculator, serving: Serving) -> None:
        self._speculator = speculator
        self._serving = serving

    def run(self) -> None:
        """Give every slot that has chosen a token before its guess of those that follow."""
        for slot, run in self._serving.at(Stage.GENERATING):
            limit = _room(slot, run)
            if run.clock.n_decoded == 0 or limit <= 0:
                continue
            tokens = slot.cache.tokens
            try:
                run.draft = self._speculator.draft(slot.id, tokens, run.next_token, limit)
            except Exception as error:
                self._serving.fail_with(slot, run, error, cache_is_good=True)
            else:
                run.clock.n_draft += len(run.draft)

    def begun(self, slot: Slot) -> None:
        """The slot's prompt is evaluated."""
        self._speculator.begin(slot.id, slot.cache.tokens)

    def checked(self, slot: Slot, run: Run, n_accepted: int) -> None:
        """So many tokens of the slot's guess were right."""
        run.clock.n_draft_accepted += n_accepted
        run.n_accepted.append(n_accepted)
        run.draft = []
        self._speculator.accepted(slot.id, n_accepted)


def _room(slot: Slot, run: Run) -> int:
    """How many tokens may be guessed: one place is left for a context shift, one for the next."""
    room = slot.n_ctx - len(slot.cache.tokens) - 2
    return min(room, run.n_remaining - 1) if run.n_remaining > 0 else room
