"""Sample: chooses a slot's next token, tells the client, and ends the task after the last."""

from engine.events import Candidate, TokenProbs
from engine.run import Run
from engine.runner import Logits
from engine.slot import Slot
from engine.steps.progress import ProgressReports
from engine.steps.serving import Serving
from engine.vocabulary import Vocabulary


class Sample:
    """Turns logits into tokens, and tokens into what a client is told."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        serving: Serving,
        progress: ProgressReports,
        *,
        special: bool,
        shifts: bool,
    ) -> None:
        """`special` shows the text of special tokens; with `shifts` a full slot is no end."""
        self._vocabulary = vocabulary
        self._serving = serving
        self._progress = progress
        self._special = special
        self._shifts = shifts

    def run(self, slot: Slot, run: Run, logits: Logits) -> None:
        """Choose a slot's next token by float32 [V]; the task may end with it, or fail."""
        try:
            if run.clock.n_decoded == 0:
                self._progress.when_due(slot, run)
            token = run.sampler.sample(logits)
            run.sampler.accept(token)
            run.clock.token_sampled()
            self._take(slot, run, token)
            if not run.has_next_token:
                self._serving.finish(slot, run)
        except Exception as error:
            self._serving.fail_with(slot, run, error, cache_is_good=True)

    def _take(self, slot: Slot, run: Run, token: int) -> None:
        task = run.task
        eog = self._vocabulary.is_eog(token)
        special = self._special or token in task.preserved_tokens
        shown = run.take_token(token, self._vocabulary.piece(token, special=special), eog=eog)
        if shown.complete:
            probs = self._probs(run, token, shown.text) if task.sampling.n_probs > 0 else None
            if task.stream:
                self._serving.emit(run, run.token_event(token, shown, probs))
            elif probs is not None:
                run.probs.append(probs)
        full = len(slot.cache.tokens) + 1 >= slot.n_ctx
        run.check_limits(shown, eog=eog, context_full=full and not self._shifts)

    def _probs(self, run: Run, token: int, text: bytes) -> TokenProbs:
        """The probabilities a client asked for, of the token just sampled."""
        probs, special = run.sampler.probs(), self._special
        piece = self._vocabulary.piece
        top = tuple(Candidate(id, piece(id, special=special), prob) for id, prob in probs.top)
        return TokenProbs(token, text, probs.prob, top)
