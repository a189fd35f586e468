"""A grammar that applies only from a trigger on: a token, a word or a pattern in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

from engine.grammar.ecmascript import compile_pattern
from engine.grammar.matcher import Matcher

_PATIENCE = 1.0  # seconds that one search may take
_TO_ESCAPE = re.compile(r"[.^$|()*+?\[\]{}\\]")


class TriggerKind(IntEnum):
    """What a trigger is; numbered as in llama.cpp."""

    TOKEN = 0
    WORD = 1
    PATTERN = 2
    PATTERN_FULL = 3


@dataclass(frozen=True, slots=True)
class Trigger:
    """What switches a lazy grammar on; `token` counts only for the kind TOKEN.

    A pattern is one of C++'s `std::regex`. The grammar applies from the first of its groups
    that took something, without one from where it matched.
    """

    kind: TriggerKind
    value: str
    token: int = -1


class LazyGrammar:
    """Lets everything pass until a trigger, then follows the grammar from the trigger on."""

    def __init__(self, matcher: Matcher, triggers: Sequence[Trigger]) -> None:
        """Raises ValueError with the text of C++'s library for a pattern that is none."""
        self._matcher = matcher
        self._tokens = {t.token for t in triggers if t.kind == TriggerKind.TOKEN}
        self._patterns = [_Pattern(_source(t)) for t in triggers if t.kind != TriggerKind.TOKEN]
        self._seen: list[tuple[int, bytes]] = []
        self._text = b""
        self.triggered = False

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        return not self.triggered or self._matcher.allows(token)

    def mask(self) -> NDArray[np.bool_]:
        """Which tokens may come next, once triggered: bool [n_vocab], not to be written."""
        return self._matcher.mask()

    def accept(self, token: int) -> None:
        """Go on with a chosen token; raises ValueError where the grammar has no way on."""
        if self.triggered:
            self._matcher.accept(token)
            return
        piece = self._matcher.piece(token)
        if token in self._tokens:
            self.triggered = True
            self._matcher.accept_piece(token, piece)
            return
        self._seen.append((token, piece))
        self._text += piece
        for pattern in self._patterns:
            start = pattern.find(self._text)
            if start is not None:
                self._replay(start)
                return

    def _replay(self, start: int) -> None:
        """Begin the grammar with the text from `start` on, which may cut the first token."""
        self.triggered = True
        end = 0
        for token, piece in self._seen:
            end += len(piece)
            if end > start:
                kept = min(len(piece), end - start)
                self._matcher.accept_piece(token, piece[len(piece) - kept :])
        self._seen.clear()
        self._text = b""


class _Pattern:
    """One pattern to be found in the text so far."""

    def __init__(self, source: str) -> None:
        self._whole = source[:1] == "^" and source[-1:] == "$"
        self._pattern = compile_pattern(source)

    def find(self, text: bytes) -> int | None:
        """Where in `text` the grammar begins, if the pattern is there."""
        try:
            found = self._pattern.fullmatch(text, timeout=_PATIENCE) if self._whole else None
            found = found or self._pattern.search(text, timeout=_PATIENCE)
        except TimeoutError:
            raise ValueError("the pattern of a grammar trigger takes too long") from None
        return None if found is None else _start(found)


def _start(found: regex.Match[bytes]) -> int:
    groups = range(1, found.re.groups + 1)
    return int(next((s for s, end in map(found.span, groups) if end > s), found.start()))


def _source(trigger: Trigger) -> str:
    """The pattern that a trigger looks for."""
    value = trigger.value
    if trigger.kind == TriggerKind.WORD:
        return _TO_ESCAPE.sub(r"\\\g<0>", value)
    if trigger.kind == TriggerKind.PATTERN:
        return value
    if not value:
        return "^$"
    return ("" if value[0] == "^" else "^") + value + ("" if value[-1] == "$" else "$")
