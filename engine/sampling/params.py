"""The sampling parameters of one request, under the names `generation_settings` shows."""

from __future__ import annotations

from dataclasses import dataclass

from engine.grammar import Trigger


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What shapes the choice of tokens; every value is already read, limited and defaulted.

    Numbers are used as float32 or int32, as llama.cpp stores them. `logit_bias` holds
    (token, bias) pairs and already includes the end-of-generation tokens when `ignore_eos`
    is set. `samplers` are the names that `engine.sampling.chain` knows.

    `grammar` is followed from the start, or with `grammar_lazy` from one of `grammar_triggers`
    on. With `grammar_begins_in_prompt` it already covers `generation_prompt`, the end of the
    prompt. The reasoning fields are token ids: a budget of -1 is none, `reasoning_forced` is
    what ends a reasoning whose budget is spent.
    """

    seed: int
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    top_k: int
    top_p: float
    min_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    typical_p: float
    repeat_last_n: int
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: tuple[str, ...]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    logit_bias: tuple[tuple[int, float], ...]
    ignore_eos: bool
    n_probs: int
    min_keep: int
    grammar: str | None
    grammar_lazy: bool
    samplers: tuple[str, ...]
    post_sampling_probs: bool
    backend_sampling: bool
    grammar_triggers: tuple[Trigger, ...] = ()
    grammar_begins_in_prompt: bool = False
    generation_prompt: str = ""
    reasoning_budget_tokens: int = -1
    reasoning_start: tuple[int, ...] = ()
    reasoning_ends: tuple[tuple[int, ...], ...] = ()
    reasoning_forced: tuple[int, ...] = ()
    reasoning_control: bool = False
