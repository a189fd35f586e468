"""What a client asks of the engine: a prompt to complete, with all that shapes the answer."""

from dataclasses import dataclass
from typing import Any

from engine.sampling import SamplingParams


@dataclass(slots=True)
class CompletionTask:
    """One prompt for one slot; a request with several prompts or choices is several tasks.

    Field names and meanings are llama-server's. The caller must not change a task, nor its
    lists, after handing it in.
    """

    prompt: list[int]
    """Token ids; an empty prompt is answered at once with an empty text."""
    sampling: SamplingParams
    n_predict: int
    """Most tokens to predict; -1 takes the server's limit; 0 still gives one token."""
    n_keep: int
    n_discard: int
    n_indent: int
    """Least indentation of every line after the first, in bytes of space or tab; 0 for none."""
    n_cache_reuse: int
    cache_prompt: bool
    id_slot: int
    """The slot to use, modulo their number; -1 leaves the choice to the engine."""
    stop: tuple[str, ...]
    t_max_predict_ms: int
    """From the first token on; looked at only where a new line begins. 0 or less for no limit."""
    stream: bool
    """Whether Begin, Progress and Token events are wanted, or the Final alone."""
    return_tokens: bool
    return_progress: bool
    timings_per_token: bool
    preserved_tokens: frozenset[int]
    """Special tokens whose text is shown all the same, such as those a chat format parses."""
    user_starts: tuple[int, ...] = ()
    """Where in the prompt a user's messages begin: good places to come back to."""
    completion_id: str = ""
    """Names the answer that this is part of, to those who act on it while it runs."""
    carried: Any = None
    """The caller's own; the engine only shows it again in a `SlotView`."""
