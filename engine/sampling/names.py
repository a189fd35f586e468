"""Sampler names: the canonical ones, the spellings accepted for them, and their one-letter forms.

These tables belong to the spec; they live here until it generates them.
"""

from __future__ import annotations

from collections.abc import Iterable

SAMPLER_CHARS = {
    "dry": "d",
    "top_k": "k",
    "typ_p": "y",
    "top_p": "p",
    "top_n_sigma": "s",
    "min_p": "m",
    "temperature": "t",
    "xtc": "x",
    "infill": "i",
    "penalties": "e",
    "adaptive_p": "a",
}

SAMPLER_NAMES = {
    **{name.replace("_", "-"): name for name in SAMPLER_CHARS},
    **{name.replace("_", ""): name for name in SAMPLER_CHARS},
    **{name: name for name in SAMPLER_CHARS},
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
}

_BY_CHAR = {char: name for name, char in SAMPLER_CHARS.items()}


def samplers_from_names(names: Iterable[str]) -> tuple[str, ...]:
    """Canonical names for `names` in any accepted spelling and case; unknown ones are left out."""
    lowered = ("".join(c.lower() if c.isascii() else c for c in name) for name in names)
    return tuple(SAMPLER_NAMES[name] for name in lowered if name in SAMPLER_NAMES)


def samplers_from_chars(chars: str) -> tuple[str, ...]:
    """Canonical names for a string of sampler letters; unknown letters are left out."""
    return tuple(_BY_CHAR[char] for char in chars if char in _BY_CHAR)
