"""What speculative decoding is set up with: llama-server's options under their own names."""

from dataclasses import dataclass

CACHE_N_MAX = 8
"""Most tokens that the kind ngram-cache drafts; no option sets it."""


@dataclass(frozen=True, slots=True)
class NgramSizes:
    """Of ngram-simple, ngram-map-k and ngram-map-k4v, each for itself."""

    size_n: int
    """Tokens of what is looked up."""
    size_m: int
    """Most tokens drafted."""
    min_hits: int
    """How often ngram-map-k4v has to meet an n-gram before it drafts; the others don't ask."""


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """The kinds in use and what each of them is told."""

    kinds: frozenset[str]
    """Names as `--spec-type` has them."""
    draft_n_max: int
    draft_n_min: int
    """The draft model's guesses are thrown away if there are fewer."""
    draft_p_min: float
    """The draft model goes on as long as its likeliest token has this probability."""
    mod_n_match: int
    mod_n_max: int
    mod_n_min: int
    simple: NgramSizes
    map_k: NgramSizes
    map_k4v: NgramSizes
    lookup_static: str
    """File of n-grams that were counted in other texts; empty for none."""
    lookup_dynamic: str
    """File of n-grams that were counted in earlier answers; only read. Empty for none."""

    @property
    def n_max(self) -> int:
        """Most tokens that any of the kinds drafts."""
        most = {
            "draft-simple": self.draft_n_max,
            "ngram-simple": self.simple.size_m,
            "ngram-map-k": self.map_k.size_m,
            "ngram-map-k4v": self.map_k4v.size_m,
            "ngram-mod": self.mod_n_max,
            "ngram-cache": CACHE_N_MAX,
        }
        return max((n for kind, n in most.items() if kind in self.kinds), default=0)
