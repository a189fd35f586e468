"""A request's sampler: the chain of the steps it enabled, its history and its random numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.grammar import LazyGrammar, Matcher, TriggerKind, parse_grammar
from engine.sampling.candidates import Candidates, Floats
from engine.sampling.chain import build
from engine.sampling.params import SamplingParams
from engine.sampling.pick import Dist
from engine.sampling.probs import Probs, after_sampling, before_sampling
from engine.sampling.reasoning import ReasoningBudget
from engine.sampling.vocab import Vocab


class Sampler:
    """Chooses tokens as llama.cpp's sampler chain does: equal logits and seed, equal tokens."""

    def __init__(
        self,
        params: SamplingParams,
        n_vocab: int,
        tokenizer: Vocab,
        *,
        suppressed: tuple[int, ...] = (),
        end_token: int | None = None,
    ) -> None:
        """Build the chain.

        `suppressed` are tokens the model's file rules out; `end_token` is what the infill
        sampler ends with (the end of a turn, else of the text). Raises ValueError with the
        reference's text for parameters it refuses.
        """
        self._params = params
        self._steps = build(params, n_vocab, tokenizer, suppressed, end_token)
        self._grammar = _grammar(params, n_vocab, tokenizer)
        self._reasoning = _reasoning(params, tokenizer)
        self._candidates: Candidates | None = None
        self._logits: Floats = np.empty(0, dtype=np.float32)
        self._token = -1

    @property
    def seed_used(self) -> int:
        """The 32-bit seed of the random numbers, the chosen one if it was left open."""
        picker = self._steps[-1]
        assert isinstance(picker, Dist)
        return picker.seed_used

    def prime(self, prompt_tokens: Iterable[int]) -> None:
        """Start over with the prompt as history; negative ids (no text) are left out."""
        for step in self._steps:
            step.reset()
        for token in prompt_tokens:
            if token >= 0:
                self._remember(token)

    def sample(self, logits: Floats) -> int:
        """Choose a token from `logits`: float32 [n_vocab], only read, kept until the next call."""
        wanted = logits if self._reasoning is None else self._reasoning.apply(logits)
        token = self._choose(wanted)
        grammar = self._grammar_to_follow()
        # A token that the grammar refuses costs its random numbers, and so does the second choice.
        if grammar is not None and not grammar.allows(token):
            token = self._choose(np.where(grammar.mask(), wanted, np.float32(-np.inf)))
        self._logits, self._token = logits, token
        return token

    def accept(self, token: int) -> None:
        """Go on with a token: in the grammar, and in the history that steps look at.

        Raises ValueError if the grammar has no way on.
        """
        grammar = self._grammar_to_follow()
        if self._reasoning is not None:
            self._reasoning.accept(token)
            if grammar is None and self._grammar is not None and self._reasoning.ended_by:
                # What ended the reasoning may be what the grammar waits for.
                for end in self._reasoning.ended_by:
                    self._grammar.accept(end)
        if grammar is not None:
            grammar.accept(token)
        self._remember(token)

    def end_reasoning(self) -> bool:
        """Force the end of the reasoning that is going on; False if there is none."""
        return self._reasoning is not None and self._reasoning.end_now()

    def probs(self) -> Probs:
        """The last sampled token's probability and the `n_probs` likeliest candidates.

        From the model's logits, or with `post_sampling_probs` from what the chain left.
        """
        if self._params.post_sampling_probs and self._candidates is not None:
            return after_sampling(self._candidates, self._token, self._params.n_probs)
        return before_sampling(self._logits, self._token, self._params.n_probs)

    def _grammar_to_follow(self) -> Matcher | LazyGrammar | None:
        """The grammar, unless it is a lazy one and a reasoning goes on."""
        waits = self._params.grammar_lazy and self._reasoning and not self._reasoning.outside
        return None if waits else self._grammar

    def _choose(self, logits: Floats) -> int:
        candidates = Candidates(logits)
        with np.errstate(all="ignore"):
            for step in self._steps:
                step.apply(candidates)
        self._candidates = candidates
        return candidates.token(candidates.selected)

    def _remember(self, token: int) -> None:
        for step in self._steps:
            step.accept(token)


def _grammar(
    params: SamplingParams, n_vocab: int, tokenizer: Vocab
) -> Matcher | LazyGrammar | None:
    """What the text has to follow, after the part of the prompt that it covers."""
    known = set(TriggerKind)
    if any(trigger.kind not in known for trigger in params.grammar_triggers):
        raise ValueError("unknown grammar trigger type")
    if not params.grammar:
        return None
    if params.grammar.startswith("%llguidance"):
        raise ValueError("llguidance (cmake -DLLAMA_LLGUIDANCE=ON) is not enabled")
    matcher = Matcher(parse_grammar(params.grammar, tokenizer), tokenizer, n_vocab)
    if params.grammar_lazy:
        return LazyGrammar(matcher, params.grammar_triggers)
    if params.grammar_begins_in_prompt:
        try:
            for token in _generation_prompt(params, tokenizer):
                matcher.accept(token)
        except ValueError:
            raise ValueError("std::exception") from None  # what is left of the reference's text
    return matcher


def _reasoning(params: SamplingParams, tokenizer: Vocab) -> ReasoningBudget | None:
    budget = params.reasoning_budget_tokens
    if not params.reasoning_start or not params.reasoning_ends:
        return None
    if budget < 0 and not params.grammar_lazy and not params.reasoning_control:
        return None
    reasoning = ReasoningBudget(
        params.reasoning_start,
        params.reasoning_ends,
        params.reasoning_forced,
        budget if budget >= 0 else None,
        tokenizer,
    )
    for token in _generation_prompt(params, tokenizer):
        reasoning.accept(token)
    return reasoning


def _generation_prompt(params: SamplingParams, tokenizer: Vocab) -> list[int]:
    """The tokens of the prompt's end, without a blank that only the tokenizer put before it."""
    text = params.generation_prompt
    if not text:
        return []
    tokens = tokenizer.encode(text, add_special=False, parse_special=True)
    if tokens:
        first = tokenizer.piece(tokens[0], special=True)[:1]
        if first.isspace() and text[0] not in " \t\n\v\f\r":
            return tokens[1:]
    return tokens
