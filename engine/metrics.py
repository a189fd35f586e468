"""Server-wide counts, since the start and since they were last read, as /metrics shows them."""

from copy import deepcopy
from dataclasses import dataclass, field

from engine.timings import Clock


@dataclass(slots=True)
class Bucket:
    """Tokens and the time they took; `steps` leaves out tokens that needed no model run."""

    count: int = 0
    steps: int = 0
    time_us: int = 0

    def add(self, count: int, steps: int, time_us: int) -> None:
        """Count these too."""
        self.count += count
        self.steps += steps
        self.time_us += time_us

    @property
    def per_second(self) -> float:
        """Steps a second, 0 before there are any."""
        return self.steps / self.time_us * 1e6 if self.time_us else 0.0


@dataclass(slots=True)
class Metrics:
    """Everything llama-server's Prometheus series are made of; a copy once it left the engine."""

    prompt: Bucket = field(default_factory=Bucket)
    """Prompt tokens evaluated; cached ones are counted apart."""
    predicted: Bucket = field(default_factory=Bucket)
    """Generated tokens, added when their task ends."""
    prompt_recent: Bucket = field(default_factory=Bucket)
    """The same since the buckets were last reset; the rates come from here."""
    predicted_recent: Bucket = field(default_factory=Bucket)
    n_prompt_cached: int = 0
    n_tokens_max: int = 0
    """The longest sequence a slot has held."""
    n_decode: int = 0
    """Steps that ran the model."""
    n_busy_slots: int = 0
    """The sum over those steps of the slots at work."""
    n_draft: int = 0
    n_draft_accepted: int = 0
    n_draft_verified: int = 0
    n_accepted_per_position: list[int] = field(default_factory=list)
    n_slots_processing: int = 0
    n_tasks_deferred: int = 0

    def copy(self) -> "Metrics":
        """Counts that stay as they are now."""
        return deepcopy(self)

    def add_prompt(self, n_tokens: int, time_us: int) -> None:
        """Count evaluated prompt tokens."""
        self.prompt.add(n_tokens, n_tokens, time_us)
        self.prompt_recent.add(n_tokens, n_tokens, time_us)

    def add_generation(self, clock: Clock) -> None:
        """Count what a task that ends had generated."""
        self.predicted.add(clock.n_decoded, clock.n_decode_steps, clock.decode_us)
        self.predicted_recent.add(clock.n_decoded, clock.n_decode_steps, clock.decode_us)
        self.n_draft += clock.n_draft
        self.n_draft_accepted += clock.n_draft_accepted

    def add_drafts(self, n_accepted: list[int], n_max: int) -> None:
        """Count a task's drafts by how many tokens of each were right, `n_max` at most."""
        self.n_draft_verified += len(n_accepted)
        missing = n_max - len(self.n_accepted_per_position) if n_accepted else 0
        self.n_accepted_per_position += [0] * missing
        for n in n_accepted:
            for position in range(n):
                self.n_accepted_per_position[position] += 1

    def reset_recent(self) -> None:
        """Start the rates afresh."""
        self.prompt_recent, self.predicted_recent = Bucket(), Bucket()
