"""Asks one kind of guessing after the other, until one has something to say."""

import logging
from collections.abc import Sequence

from engine.errors import ModelError
from engine.running.runner import Runner
from engine.speculation.draft_model import DraftModel
from engine.speculation.drafter import Drafter
from engine.speculation.ngram_cache import LookupFileError, NgramCache, read_lookup_file
from engine.speculation.ngram_map import NgramMap
from engine.speculation.ngram_mod import NgramMod
from engine.speculation.ngram_simple import NgramSimple
from engine.speculation.settings import SpeculationSettings

log = logging.getLogger(__name__)


class Speculator:
    """The kinds in use, in llama-server's order, whatever order they were named in."""

    def __init__(self, drafters: Sequence[Drafter], n_max: int) -> None:
        """`n_max` is the most that any of them drafts."""
        self._drafters = list(drafters)
        self.n_max = n_max
        self._asked_last: dict[int, Drafter] = {}

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """A new answer begins in a slot that holds `prompt`."""
        for drafter in self._drafters:
            drafter.begin(id_slot, prompt)

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """At most `limit` tokens, 1 or more, that may follow what the slot holds and `last`."""
        for drafter in self._drafters:
            draft = drafter.draft(id_slot, tokens, last, limit)
            if draft:
                self._asked_last[id_slot] = drafter
                return draft[:limit]
        return []

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """So many tokens of the slot's last draft were right."""
        self._asked_last[id_slot].accepted(id_slot, n_accepted)


def make_speculator(
    settings: SpeculationSettings, target: Runner, draft: Runner | None
) -> Speculator | None:
    """What `settings` ask for; None if that is nothing, or nothing that these models can do.

    Raises ModelError for a lookup file that can't be read.
    """
    if settings.kinds and target.new_cache().needs_checkpoints:
        log.warning("this model's cache can't be rolled back: nothing is speculated")
        return None
    drafters: list[Drafter] = []
    if "ngram-simple" in settings.kinds:
        drafters.append(NgramSimple(settings.simple))
    if "ngram-map-k" in settings.kinds:
        drafters.append(NgramMap(settings.map_k, key_only=True))
    if "ngram-map-k4v" in settings.kinds:
        drafters.append(NgramMap(settings.map_k4v, key_only=False))
    if "ngram-mod" in settings.kinds:
        drafters.append(NgramMod(settings.mod_n_match, settings.mod_n_max, settings.mod_n_min))
    if "ngram-cache" in settings.kinds:
        drafters.append(_ngram_cache(settings))
    if "draft-simple" in settings.kinds:
        drafters += _draft_model(settings, draft)
    return Speculator(drafters, settings.n_max) if drafters else None


def _draft_model(settings: SpeculationSettings, draft: Runner | None) -> list[Drafter]:
    if draft is None:
        log.error("draft-simple needs a draft model: name one with --spec-draft-model")
        return []
    if draft.new_cache().needs_checkpoints:
        log.warning("the draft model's cache can't be rolled back: it isn't used")
        return []
    n_max, n_min, p_min = settings.draft_n_max, settings.draft_n_min, settings.draft_p_min
    return [DraftModel(draft, n_max=n_max, n_min=n_min, p_min=p_min)]


def _ngram_cache(settings: SpeculationSettings) -> NgramCache:
    try:
        static, dynamic = (
            read_lookup_file(path) if path else {}
            for path in (settings.lookup_static, settings.lookup_dynamic)
        )
    except LookupFileError as error:
        raise ModelError(str(error)) from None
    return NgramCache(static, dynamic)
