"""Sample: chooses a slot's next tokens, tells the client, and ends the task after the last."""

from engine.events import Candidate, TokenProbs
from engine.run import Run
from engine.slots.slot import Slot
from engine.steps.decode import Decoded
from engine.steps.draft import Draft
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
        draft: Draft | None,
        *,
        special: bool,
        shifts: bool,
    ) -> None:
        """`special` shows the text of special tokens; with `shifts` a full slot is no end."""
        self._vocabulary = vocabulary
        self._serving = serving
        self._progress = progress
        self._draft = draft
        self._special = special
        self._shifts = shifts

    def run(self, decoded: Decoded) -> None:
        """Choose a slot's next token, or several if they were guessed; the task may end, or fail.

        All are chosen before the first is told, as in llama-server: its figures, and what the
        cache holds, count those beyond an end too.
        """
        slot, run = decoded.slot, decoded.run
        try:
            if run.clock.n_decoded == 0:
                self._progress.when_due(slot, run)
                if self._draft is not None:
                    self._draft.begun(slot)
            guessed = bool(run.draft)
            tokens = self._choose(decoded)
            for n_held, token in enumerate(tokens, decoded.n_before + 1):
                run.clock.token_sampled()
                self._take(slot, run, token, n_held, guessed=guessed)
                if not run.has_next_token:
                    self._serving.finish(slot, run)
                    return
        except Exception as error:
            self._serving.fail_with(slot, run, error, cache_is_good=True)

    def _choose(self, decoded: Decoded) -> list[int]:
        """Sample as long as the guesses are right; the cache then holds no wrong one."""
        slot, run, draft = decoded.slot, decoded.run, decoded.run.draft
        chosen: list[int] = []
        for logits in decoded.logits:
            token = run.sampler.sample(logits)
            run.sampler.accept(token)
            chosen.append(token)
            if chosen != draft[: len(chosen)]:
                break
        if draft and self._draft is not None:
            slot.cache.keep_first(decoded.n_before + len(chosen))
            self._draft.checked(slot, run, len(chosen) - 1)
        return chosen

    def _take(self, slot: Slot, run: Run, token: int, n_held: int, *, guessed: bool) -> None:
        """Tell of a token that was chosen when the slot held `n_held`."""
        task = run.task
        eog = self._vocabulary.is_eog(token)
        special = self._special or token in task.preserved_tokens
        shown = run.take_token(token, self._vocabulary.piece(token, special=special), eog=eog)
        if shown.complete:
            probs = None
            if task.sampling.n_probs > 0:
                probs = self._probs(run, token, shown.text, guessed=guessed)
            if task.stream:
                self._serving.emit(run, run.token_event(token, shown, probs))
            elif probs is not None:
                run.probs.append(probs)
        full = n_held + 1 >= slot.n_ctx
        run.check_limits(shown, eog=eog, context_full=full and not self._shifts)

    def _probs(self, run: Run, token: int, text: bytes, *, guessed: bool) -> TokenProbs:
        """The probabilities a client asked for, of the token just sampled.

        Where a draft was checked llama-server has none: the chosen token is as good as certain.
        """
        if guessed:
            return TokenProbs(token, text, 1.0, ())
        probs, special = run.sampler.probs(), self._special
        piece = self._vocabulary.piece
        top = tuple(Candidate(id, piece(id, special=special), prob) for id, prob in probs.top)
        return TokenProbs(token, text, probs.prob, top)
