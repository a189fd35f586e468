"""Pre-tokenizers and vocabulary types that no recorded model shows, over made vocabularies."""

from __future__ import annotations

from typing import Any

import pytest

from engine.tokenizer import Tokenizer
from engine.tokenizer.pretokenizers import PRE_TOKENIZERS
from tests.tokenizer_data import metadata, paired, read_xz

PRE: Any = read_xz("pretokenizers.json.xz")
MADE: Any = read_xz("made.json.xz")


def _one_name_each() -> list[str]:
    """A name of each way of treating text; the other names are the same objects."""
    return list({PRE_TOKENIZERS[name]: name for name in PRE["names"]}.values())


@pytest.mark.parametrize("pre", _one_name_each())
def test_pre_tokenizer_cuts(pre: str) -> None:
    group, add, cleaned = PRE["names"][pre]
    tokenizer = Tokenizer.from_gguf(paired(PRE["alphabet"], pre))
    for text, ids in zip(PRE["texts"], PRE["groups"][group], strict=True):
        assert tokenizer.encode(text, add_special=False, parse_special=False) == ids, text
    assert [tokenizer.add_bos, tokenizer.add_eos, tokenizer.add_sep] == add
    spaced = tokenizer.encode("a , b 's .", add_special=False, parse_special=False)
    assert tokenizer.detokenize(spaced, special=True).decode() == cleaned


def test_every_name_has_its_cuts() -> None:
    groups: dict[tuple[str, ...], set[int]] = {}
    for name, (group, _, _) in PRE["names"].items():
        groups.setdefault(PRE_TOKENIZERS[name].patterns, set()).add(group)
    assert all(len(found) == 1 for found in groups.values())
    raw = {name for name, pre in PRE_TOKENIZERS.items() if not pre.byte_encode}
    assert set(PRE_TOKENIZERS) - set(PRE["names"]) == raw | {""}


@pytest.mark.parametrize("name", MADE)
def test_vocabulary_type(name: str) -> None:
    made = MADE[name]
    given = made["metadata"]
    if base := given.pop("vocab", None):
        given = metadata(base) | given
    tokenizer = Tokenizer.from_gguf(given)
    for text, plain, special in zip(made["texts"], made["plain"], made["special"], strict=True):
        assert tokenizer.encode(text, add_special=False, parse_special=False) == plain, text
        assert tokenizer.encode(text, add_special=True, parse_special=True) == special, text
    for raw, ids in made["bytes"]:
        encoded = tokenizer.encode(bytes.fromhex(raw), add_special=False, parse_special=False)
        assert encoded == ids, raw
    pieces = [tokenizer.piece(id).hex() for id in range(len(made["pieces"]))]
    assert pieces == made["pieces"]
