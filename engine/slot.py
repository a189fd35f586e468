"""A slot: the place where one task at a time is served, with a cache that outlives the task."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.cache import SequenceCache
from engine.events import Event, Final, StopType, TokenProbs
from engine.sampling import Sampler
from engine.task import CompletionTask
from engine.text import TextStream
from engine.timings import Clock

Sink = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A task with its id and where its events go."""

    id: int
    task: CompletionTask
    sink: Sink


class Stage(Enum):
    """How far a task has come in its slot."""

    STARTED = auto()
    """Assigned; nothing was looked at yet."""
    PROMPT = auto()
    """Its prompt is being evaluated."""
    GENERATING = auto()


@dataclass(slots=True)
class Run:
    """Everything that belongs to one task in its slot and goes when the task goes."""

    request: Request
    sampler: Sampler
    text: TextStream
    n_predict: int
    """The limit that holds for this task; -1 for none."""
    stage: Stage = Stage.STARTED
    clock: Clock = field(default_factory=Clock)
    next_token: int = -1
    """What the next decode step evaluates: the prompt's last token, then each sampled one."""
    report_at: int = 0
    """The prompt position after which progress is reported next."""
    tokens: list[int] = field(default_factory=list)
    probs: list[TokenProbs] = field(default_factory=list)
    truncated: bool = False
    stop_type: StopType = "none"
    stopping_word: str = ""
    has_next_token: bool = True

    @property
    def task(self) -> CompletionTask:
        """The task being served."""
        return self.request.task

    @property
    def n_remaining(self) -> int:
        """Tokens left of the limit; -1 without one."""
        return -1 if self.n_predict == -1 else self.n_predict - self.clock.n_decoded

    @property
    def out_of_budget(self) -> bool:
        """Whether the limit is used up."""
        return self.n_predict != -1 and self.n_remaining <= 0


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot as `/slots` shows it; without a task those of the last one stay, its counts don't."""

    id: int
    n_ctx: int
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

    def __init__(self, id: int, n_ctx: int, cache: SequenceCache) -> None:
        """`n_ctx` is the most tokens this slot may hold."""
        self.id = id
        self.n_ctx = n_ctx
        self.cache = cache
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
            content="" if stream else run.text.generated.decode(errors="replace"),
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
