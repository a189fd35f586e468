"""Whole vocabularies give the ids, pieces and roles that llama.cpp gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.tokenizer import Tokenizer
from tests.tokenizer_data import DATA, metadata, read_xz, vectors

NAMES = sorted(path.name.removesuffix(".json.xz") for path in (DATA / "vocabs").iterdir())


@pytest.fixture(scope="module", params=NAMES)
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Tokenizer]]:
    yield request.param, Tokenizer.from_gguf(metadata(request.param))


@pytest.fixture(scope="module")
def recorded() -> Any:
    return read_xz("random.json.xz")


def test_llama_cpps_own_vectors(loaded: tuple[str, Tokenizer]) -> None:
    name, tokenizer = loaded
    if not (DATA / "vectors" / f"{name}.inp").exists():
        pytest.skip("llama.cpp keeps no vectors for this vocabulary")
    pairs = vectors(name)
    assert len(pairs) >= 46
    for text, ids in pairs:
        assert tokenizer.encode(text, add_special=False, parse_special=False) == ids, text


def test_random_texts(loaded: tuple[str, Tokenizer], recorded: Any) -> None:
    name, tokenizer = loaded
    plain = recorded["vocabs"][name]["plain"]
    for text, ids in zip(recorded["texts"], plain, strict=True):
        assert tokenizer.encode(text, add_special=False, parse_special=False) == ids, text


def test_texts_with_special_tokens(loaded: tuple[str, Tokenizer], recorded: Any) -> None:
    name, tokenizer = loaded
    known = recorded["vocabs"][name]
    for text, parsed, as_text in zip(
        known["special_texts"], known["special"], known["special_as_text"], strict=True
    ):
        assert tokenizer.encode(text, add_special=True, parse_special=True) == parsed, text
        assert tokenizer.encode(text, add_special=True, parse_special=False) == as_text, text


def test_detokenized(loaded: tuple[str, Tokenizer], recorded: Any) -> None:
    name, tokenizer = loaded
    known = recorded["vocabs"][name]
    for ids, text in zip(known["special"], known["detokenized"], strict=True):
        assert tokenizer.detokenize(ids, special=True).decode(errors="surrogateescape") == text
    for ids, text in zip(known["plain"], known["detokenized_plain"], strict=False):
        assert tokenizer.detokenize(ids, special=False).decode(errors="surrogateescape") == text


def test_roles_and_ends(loaded: tuple[str, Tokenizer], recorded: Any) -> None:
    name, tokenizer = loaded
    known = recorded["vocabs"][name]
    roles = ("bos", "eos", "sep", "nl", "pad", "mask")
    fim = ("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
    found = {role: getattr(tokenizer, role) for role in roles + fim}
    assert {role: id for role, id in found.items() if id is not None} == known["roles"]
    assert [tokenizer.add_bos, tokenizer.add_eos, tokenizer.add_sep] == known["add"]
    assert sorted(tokenizer.eog) == known["eog"]
