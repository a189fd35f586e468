"""A request's sampler: the chain of the steps it enabled, its history and its random numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.grammar import Matcher, parse_grammar
from engine.sampling.candidates import Candidates, Floats
from engine.sampling.chain import build
from engine.sampling.params import SamplingParams
from engine.sampling.pick import Dist
from engine.sampling.probs import Probs, after_sampling, before_sampling
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
        self._matcher = _matcher(params, n_vocab, tokenizer)
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
        token = self._choose(logits)
        # A token that the grammar refuses costs its random numbers, and so does the second choice.
        if self._matcher is not None and not self._matcher.allows(token):
            allowed = self._matcher.mask()
            token = self._choose(np.where(allowed, logits, np.float32(-np.inf)))
        self._logits, self._token = logits, token
        return token

    def accept(self, token: int) -> None:
        """Go on with a token: in the grammar, and in the history that steps look at.

        Raises ValueError if the grammar has no way on.
        """
        if self._matcher is not None:
            self._matcher.accept(token)
        self._remember(token)

    def probs(self) -> Probs:
        """The last sampled token's probability and the `n_probs` likeliest candidates.

        From the model's logits, or with `post_sampling_probs` from what the chain left.
        """
        if self._params.post_sampling_probs and self._candidates is not None:
            return after_sampling(self._candidates, self._token, self._params.n_probs)
        return before_sampling(self._logits, self._token, self._params.n_probs)

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


def _matcher(params: SamplingParams, n_vocab: int, tokenizer: Vocab) -> Matcher | None:
    if not params.grammar:
        return None
    if params.grammar_lazy:
        raise ValueError("lazy grammars aren't supported yet")
    return Matcher(parse_grammar(params.grammar, tokenizer), tokenizer, n_vocab)
