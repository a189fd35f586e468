"""What the engine tells a task's sink: frozen, plain Python values, in the order they happened."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.timings import Timings

StopType = Literal["none", "eos", "word", "limit"]
FailureKind = Literal[
    "invalid_request", "exceed_context_size", "unavailable", "out_of_memory", "server"
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token with its probability (a float32's value), before or after sampling as asked for."""

    id: int
    piece: bytes
    """Its text; may be part of a character."""
    prob: float

    @property
    def logprob(self) -> float:
        """The natural logarithm in float32, and float32's lowest value where that is infinite."""
        return float(np.log(np.float32(self.prob)) if self.prob > 0 else np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class TokenProbs(Candidate):
    """The chosen token with the text sent for it, and the `n_probs` best of all candidates."""

    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A slot took the task up and its prompt fits. For streams without progress only."""

    n_prompt_tokens: int
    n_prompt_tokens_cache: int


@dataclass(frozen=True, slots=True)
class Progress:
    """So many tokens of the prompt are evaluated: sent at the start and after every batch."""

    total: int
    cache: int
    processed: int
    time_ms: int
    timings: Timings | None
    """Only when `timings_per_token` was asked for."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token was predicted, in a stream; `text` is what may be shown, empty while held back."""

    text: str
    tokens: tuple[int, ...]
    n_decoded: int
    n_prompt_tokens: int
    n_prompt_tokens_cache: int
    timings: Timings | None
    """Only when `timings_per_token` was asked for, or with the token that completed a stop word."""
    probs: TokenProbs | None
    """Only when `n_probs` is above 0."""


@dataclass(frozen=True, slots=True)
class Final:
    """The task is done. A stream has had text, tokens and probabilities: here they are empty."""

    content: str
    held_back: str
    """Of a stream, text that a limit left waiting for more; the last frame shows it."""
    tokens: tuple[int, ...]
    """Empty also unless `return_tokens`."""
    id_slot: int
    prompt: list[int]
    """The task's own token ids."""
    n_decoded: int
    n_prompt_tokens: int
    n_prompt_tokens_cache: int
    n_tokens_cached: int
    """How many tokens the slot's cache holds now."""
    has_new_line: bool
    truncated: bool
    stop_type: StopType
    stopping_word: str
    timings: Timings
    probs: tuple[TokenProbs, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The task ended without an answer; nothing follows."""

    kind: FailureKind
    message: str
    n_prompt_tokens: int = 0
    """With `n_ctx`, for `exceed_context_size` only."""
    n_ctx: int = 0


Event = Begin | Progress | Token | Final | Failed
