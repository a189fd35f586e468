"""The engine's counts under the names that the Prometheus series use."""

from engine.metrics import Metrics


class Figures:
    """What GET /metrics shows; times in seconds, rates in tokens a second."""

    def __init__(self, counts: Metrics) -> None:
        self.prompt_tokens_total = counts.prompt.count
        self.prompt_tokens_cached_total = counts.n_prompt_cached
        self.prompt_seconds_total = counts.prompt.time_us / 1e6
        self.tokens_predicted_total = counts.predicted.count
        self.tokens_predicted_seconds_total = counts.predicted.time_us / 1e6
        self.n_decode_total = counts.n_decode
        self.n_tokens_max = counts.n_tokens_max
        self.spec_decode_num_draft_tokens_total = counts.n_draft
        self.spec_decode_num_accepted_tokens_total = counts.n_draft_accepted
        self.spec_decode_num_drafts_total = counts.n_draft_verified
        self.prompt_tokens_seconds = counts.prompt_recent.per_second
        self.predicted_tokens_seconds = counts.predicted_recent.per_second
        self.requests_processing = counts.n_slots_processing
        self.requests_deferred = counts.n_tasks_deferred
        self.spec_decode_num_accepted_tokens_per_pos_total = counts.n_accepted_per_position
        self.n_busy_slots_per_decode = counts.n_busy_slots / max(counts.n_decode, 1)
