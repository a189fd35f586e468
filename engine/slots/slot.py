"""A slot: the place where one task at a time is served, with a cache that outlives the task."""

from dataclasses import dataclass

from engine.caches.sequence import SequenceCache
from engine.events import Final, TokenProbs
from engine.run import Request, Run
from engine.task import CompletionTask
from engine.timings import Clock


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot as `/slots` shows it; without a task those of the last one stay, its counts don't."""

    id: int
    n_ctx: int
    speculates: bool
    """Whether guesses are made for its tasks."""
    is_processing: bool
    id_task: int | None
    """None before the first task; the rest means nothing then."""
    task: CompletionTask | None
    n_prompt_tokens: int
    """Tokens in the cache."""
    n_prompt_tokens_processed: int
    n_prompt_tokens_cache: int
    has_next_token: bool
    has_new_line: bool
    n_remain: int
    n_decoded: int
    generated: bytes


class Slot:
    """One of the engine's places; all methods are for the engine thread."""

    def __init__(
        self, id: int, n_ctx: int, cache: SequenceCache, *, speculates: bool = False
    ) -> None:
        """`n_ctx` is the most tokens this slot may hold."""
        self.id = id
        self.n_ctx = n_ctx
        self.cache = cache
        self._speculates = speculates
        self.run: Run | None = None
        self.t_last_used = -1
        self._last_request: Request | None = None
        self._had_next_token = True

    def release(self, now_us: int) -> None:
        """End the task, if any; the cache stays for the next one."""
        if self.run is not None:
            self.t_last_used = now_us
            self._last_request = self.run.request
            self._had_next_token = self.run.has_next_token
            self.run = None

    def view(self) -> SlotView:
        """The slot as it is between two steps."""
        run = self.run
        request = run.request if run else self._last_request
        clock = run.clock if run else Clock()
        return SlotView(
            id=self.id,
            n_ctx=self.n_ctx,
            speculates=self._speculates,
            is_processing=run is not None,
            id_task=request.id if request else None,
            task=request.task if request else None,
            n_prompt_tokens=len(self.cache.tokens),
            n_prompt_tokens_processed=clock.n_prompt_processed,
            n_prompt_tokens_cache=clock.n_prompt_cached,
            has_next_token=run.has_next_token if run else self._had_next_token,
            has_new_line=run.text.has_new_line if run else False,
            n_remain=run.n_remaining if run else -1,
            n_decoded=clock.n_decoded,
            generated=bytes(run.text.generated) if run else b"",
        )

    def final(self, run: Run, probs: tuple[TokenProbs, ...]) -> Final:
        """The event that ends `run`; a stream has had its text, tokens and `probs` already."""
        stream = run.task.stream
        return Final(
            content="" if stream else run.text.whole(),
            held_back=run.text.held_back() if stream else "",
            tokens=() if stream else tuple(run.tokens),
            id_slot=self.id,
            prompt=run.task.prompt,
            n_decoded=run.clock.n_decoded,
            n_prompt_tokens=len(run.task.prompt),
            n_prompt_tokens_cache=run.clock.n_prompt_cached,
            n_tokens_cached=len(self.cache.tokens),
            has_new_line=run.text.has_new_line,
            truncated=run.truncated,
            stop_type=run.stop_type,
            stopping_word=run.stopping_word,
            timings=run.clock.timings(),
            probs=() if stream else probs,
        )
