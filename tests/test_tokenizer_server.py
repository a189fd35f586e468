"""SmolLM2's tokenizer answers as llama-server's /tokenize and /detokenize did."""

from __future__ import annotations

from typing import Any

import pytest

from engine.tokenizer import Tokenizer, UnsupportedTokenizer
from tests.tokenizer_data import metadata, read_xz


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_gguf(metadata("smollm2"))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = read_xz("smollm2.json.xz")
    return recorded


def test_ids_in_every_mode(tokenizer: Tokenizer, rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 340
    for row in rows:
        for add in (False, True):
            for parse in (False, True):
                ids = tokenizer.encode(row["text"], add_special=add, parse_special=parse)
                assert ids == row[f"{add:d}{parse:d}"], row["text"]


def test_pieces(tokenizer: Tokenizer, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for id, piece in zip(row["00"], row["pieces"], strict=True):
            # What isn't UTF-8 on its own is listed as bytes.
            raw = piece.encode() if isinstance(piece, str) else bytes(piece)
            assert tokenizer.piece(id) == raw


def test_decoded_text(tokenizer: Tokenizer, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert tokenizer.decode(row["01"], special=True).decode() == row["detokenized"]


def test_control_tokens_are_hidden_on_request(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>a<|im_end|>", add_special=False, parse_special=True)
    assert ids == [1, 81, 2]
    assert tokenizer.decode(ids, special=False) == b"a"
    assert tokenizer.decode(ids, special=True) == b"<|im_start|>a<|im_end|>"
    assert (tokenizer.is_control(1), tokenizer.is_control(81)) == (True, False)
    assert (tokenizer.is_eog(2), tokenizer.is_eog(1)) == (True, False)


def test_lone_surrogates_and_invalid_bytes(tokenizer: Tokenizer) -> None:
    def encode(text: str | bytes) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=True)

    assert encode("a\ud800b") == encode(b"a\xed\xa0\x80b")
    assert encode(b"a\xffb") == encode("a\ufffdb")
    assert encode("") == []


def test_ids_outside_the_vocabulary(tokenizer: Tokenizer) -> None:
    for id in (-1, tokenizer.n_tokens):
        with pytest.raises(IndexError):
            tokenizer.piece(id)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "key not found in model: tokenizer.ggml.model"),
        ({"model": "none"}, "this model has no vocabulary to tokenise with"),
        ({"model": "abacus"}, "unknown tokenizer: 'abacus'"),
        ({"model": "gpt2", "pre": "nonsense"}, "unknown pre-tokenizer type: 'nonsense'"),
        ({"model": "llama"}, "cannot find tokenizer vocab in model file"),
        ({"model": "gpt2", "tokens": ["a"]}, "cannot find tokenizer merges in model file"),
        (
            {"model": "llama", "tokens": ["a", "b"], "scores": [0.0]},
            "tokenizer.ggml.scores has 1 entries for 2 tokens",
        ),
    ],
)
def test_what_is_refused(given: dict[str, Any], line: str) -> None:
    with pytest.raises(UnsupportedTokenizer) as refused:
        Tokenizer.from_gguf({f"tokenizer.ggml.{key}": value for key, value in given.items()})
    assert str(refused.value) == line
