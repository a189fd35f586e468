"""Speculative decoding as the command line asks for it."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.open_model import OpenModel, open_model
from engine.speculation import NgramSizes, SpeculationSettings
from generated.options import Settings

log = logging.getLogger("mlx-llama-server")

_BY_DEFAULT = "ngram-mod"
_NOT_BUILT = ("draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark")


def speculative_types(settings: Settings) -> tuple[str, ...]:
    """The kinds as upstream lists them: its default "none" stays in front of those given."""
    by_default = (_BY_DEFAULT,) if settings.spec_default else ()
    return ("none", *settings.spec_types, *by_default)


def refusal(settings: Settings) -> str:
    """Why the server doesn't start with what was asked for; empty if it does."""
    for kind in settings.spec_types:
        if kind in _NOT_BUILT:
            return f"--spec-type {kind} isn't built yet"
    if settings.spec_draft_model and not Path(settings.spec_draft_model).exists():
        return f"{settings.spec_draft_model}: there is no such draft model"
    return ""


def speculation_settings(settings: Settings) -> SpeculationSettings:
    """The engine's part of it."""
    return SpeculationSettings(
        kinds=frozenset(speculative_types(settings)) - {"none"},
        draft_n_max=settings.spec_draft_n_max,
        draft_n_min=settings.spec_draft_n_min,
        draft_p_min=settings.spec_draft_p_min,
        mod_n_match=settings.spec_ngram_mod_n_match,
        mod_n_max=settings.spec_ngram_mod_n_max,
        mod_n_min=settings.spec_ngram_mod_n_min,
        simple=NgramSizes(
            settings.spec_ngram_simple_size_n, settings.spec_ngram_simple_size_m, min_hits=1
        ),
        map_k=NgramSizes(
            settings.spec_ngram_map_k_size_n, settings.spec_ngram_map_k_size_m, min_hits=1
        ),
        map_k4v=NgramSizes(
            settings.spec_ngram_map_k4v_size_n,
            settings.spec_ngram_map_k4v_size_m,
            settings.spec_ngram_map_k4v_min_hits,
        ),
        lookup_static=settings.lookup_cache_static,
        lookup_dynamic=settings.lookup_cache_dynamic,
    )


def draft_loader(settings: Settings, n_ctx: int | None) -> Callable[[], OpenModel] | None:
    """What loads the draft model; None if none was given, or nothing asks for its guesses."""
    if not settings.spec_draft_model:
        return None
    if "draft-simple" not in settings.spec_types:
        log.warning("the draft model isn't used without --spec-type draft-simple")
        return None
    return partial(open_model, Path(settings.spec_draft_model), None, n_ctx=n_ctx)
