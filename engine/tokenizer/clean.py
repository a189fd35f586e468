"""Tidying spaces in decoded text, as `clean_up_tokenization_spaces` of llama.cpp does."""

from __future__ import annotations

import re

_BEFORE_MARK = re.compile(rb" (?=[?!.,])")
_BEFORE_CONTRACTION = re.compile(rb" (?='(?:s|m|re|ve))")


def clean_spaces(text: bytes) -> bytes:
    """`text` without spaces before `? ! . ,`, around lone apostrophes and before `'s` and such."""
    text = _BEFORE_MARK.sub(b"", text).replace(b" ' ", b"'")
    return _BEFORE_CONTRACTION.sub(b"", text)
