"""One task while a slot serves it: how far it is, its text, and whether another token is wanted."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.events import Event, StopType, Token, TokenProbs
from engine.sampling import Sampler
from engine.task import CompletionTask
from engine.text import Shown, TextStream, to_text
from engine.timings import Clock

log = logging.getLogger(__name__)

Sink = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A task with its id and where its events go."""

    id: int
    task: CompletionTask
    sink: Sink
    children: "tuple[Request, ...]" = ()
    """Tasks with the same prompt, which is evaluated once for all of them."""

    @property
    def everyone(self) -> "tuple[Request, ...]":
        """This request and its children."""
        return (self, *self.children)


class Stage(Enum):
    """How far a task has come in its slot."""

    STARTED = auto()
    """Assigned; nothing was looked at yet."""
    PROMPT = auto()
    """Its prompt is being evaluated."""
    WAITING = auto()
    """Its prompt is being evaluated in its parent's slot."""
    GENERATING = auto()
    """All but the last token of its prompt is evaluated."""


@dataclass(slots=True)
class Run:
    """Everything that belongs to one task in its slot and goes when the task goes."""

    request: Request
    sampler: Sampler
    text: TextStream
    n_predict: int
    """The limit that holds for this task; -1 for none."""
    parent: "Run | None" = None
    """The task in whose slot the prompt is evaluated, if that isn't this one."""
    stage: Stage = Stage.STARTED
    clock: Clock = field(default_factory=Clock)
    next_token: int = -1
    """What the next decode step evaluates: the prompt's last token, then each sampled one."""
    draft: list[int] = field(default_factory=list)
    """Guesses of what follows `next_token`, which the next decode step checks."""
    n_accepted: list[int] = field(default_factory=list)
    """Of every draft that was checked, how many of its tokens were right."""
    batch_end: int = 0
    """Where llama-server's batch of the prompt would end, at whose start checkpoints are made."""
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
    def shares_prompt(self) -> bool:
        """Whether other tasks were started with the same prompt."""
        return self.parent is not None or bool(self.request.children)

    @property
    def n_remaining(self) -> int:
        """Tokens left of the limit; -1 without one."""
        return -1 if self.n_predict == -1 else self.n_predict - self.clock.n_decoded

    def take_token(self, token: int, piece: bytes, *, eog: bool) -> Shown:
        """Add a sampled token to the answer; `eog` says that it ends the generation."""
        self.next_token = token
        if self.task.return_tokens:
            self.tokens.append(token)
        shown = self.text.add(piece, last=eog)
        if shown.stopped_by is not None:
            self.stopping_word = shown.stopped_by
            self._stop("word")
        return shown

    def check_limits(self, shown: Shown, *, eog: bool, context_full: bool) -> None:
        """Stop where a limit is reached; call once the client was told of the token.

        `context_full` says that there is no room for another token. The order is llama-server's:
        the last check that applies names the reason.
        """
        if context_full:
            self.truncated = True
            self._stop("limit")
        if self.has_next_token and self.n_predict != -1 and self.n_remaining <= 0:
            self._stop("limit")
        if self.text.has_new_line and self.text.breaks_indentation():
            self._stop("limit")
        if b"\n" in shown.text:
            self.text.has_new_line = True
            if 0 < self.task.t_max_predict_ms < self.clock.decode_us / 1000:
                self._stop("limit")
        if eog:
            self._stop("eos")

    def token_event(self, token: int, shown: Shown, probs: TokenProbs | None) -> Token:
        """What a stream is told of a token."""
        tell_timings = self.task.timings_per_token or self.stop_type != "none"
        return Token(
            text=to_text(shown.text),
            tokens=(token,),
            n_decoded=self.clock.n_decoded,
            n_prompt_tokens=len(self.task.prompt),
            n_prompt_tokens_cache=self.clock.n_prompt_cached,
            timings=self.clock.timings() if tell_timings else None,
            probs=probs,
        )

    def _stop(self, stop_type: StopType) -> None:
        self.stop_type = stop_type
        self.has_next_token = False


def send(request: Request, event: Event) -> bool:
    """Hand an event to the task's sink; False if the sink raised, which is its owner's fault."""
    try:
        request.sink(event)
    except Exception:
        log.exception("the sink of task %d", request.id)
        return False
    return True
