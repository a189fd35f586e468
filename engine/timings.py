"""One request's clock: when prompt and generation ran, and llama-server's figures for that."""

import time
from dataclasses import dataclass


def now_us() -> int:
    """A clock in microseconds that never runs backwards; only differences mean anything."""
    return time.perf_counter_ns() // 1000


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's `timings` object, under its names.

    Counts are tokens; `prompt_n` leaves out the `cache_n` taken from the cache. The first
    predicted token comes with the prompt, so predicted rates count one token less. The draft
    pair is None unless something was drafted: leave both out of a reply then.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | None = None
    draft_n_accepted: int | None = None


@dataclass(slots=True)
class Clock:
    """What a slot counts for one request; times are `now_us()` values, 0 for not yet."""

    n_prompt_cached: int = 0
    n_prompt_processed: int = 0
    n_decoded: int = 0
    n_draft: int = 0
    n_draft_accepted: int = 0
    t_start: int = 0
    t_prompt_last: int = 0
    t_decoded_last: int = 0

    def start(self) -> None:
        """The slot took the request up."""
        self.t_start = now_us()

    def prompt_evaluated(self, n_tokens: int) -> None:
        """`n_tokens` more of the prompt are in the cache."""
        self.n_prompt_processed += n_tokens
        self.t_prompt_last = now_us()

    def token_sampled(self) -> None:
        """One more token was chosen; the prompt's time ends with the first."""
        self.n_decoded += 1
        self.t_decoded_last = now_us()
        if self.n_decoded == 1:
            self.t_prompt_last = self.t_decoded_last

    @property
    def elapsed_ms(self) -> int:
        """Whole milliseconds since the request was taken up."""
        return (now_us() - self.t_start) // 1000

    @property
    def prompt_us(self) -> int:
        """Time spent on the prompt so far."""
        return self.t_prompt_last - self.t_start if self.t_prompt_last else 0

    @property
    def decode_us(self) -> int:
        """Time from the first token to the last, at least 1 once there is one."""
        return max(1, self.t_decoded_last - self.t_prompt_last) if self.t_decoded_last else 0

    @property
    def n_decode_steps(self) -> int:
        """Model runs spent on generation: the first token needs none of its own."""
        return max(0, self.n_decoded - 1)

    def timings(self) -> Timings:
        """The figures as of now; a rate whose divisor isn't known yet is 0."""
        prompt_ms, decode_ms = self.prompt_us / 1000.0, self.decode_us / 1000.0
        prompt_n, steps = self.n_prompt_processed, self.n_decode_steps
        return Timings(
            cache_n=self.n_prompt_cached,
            prompt_n=prompt_n,
            prompt_ms=prompt_ms,
            prompt_per_token_ms=prompt_ms / prompt_n if prompt_n else 0.0,
            prompt_per_second=1e3 / prompt_ms * prompt_n if prompt_ms > 0 else 0.0,
            predicted_n=self.n_decoded,
            predicted_ms=decode_ms,
            predicted_per_token_ms=decode_ms / steps if steps else 0.0,
            predicted_per_second=1e3 / decode_ms * steps if decode_ms > 0 else 0.0,
            draft_n=self.n_draft if self.n_draft else None,
            draft_n_accepted=self.n_draft_accepted if self.n_draft else None,
        )
