"""A Hugging Face directory tokenises through the same interface as a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from engine.tokenizer import Tokenizer, UnsupportedTokenizer
from tests.tokenizer_data import metadata, read_xz


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2's vocabulary as `tokenizer.json`, with a beginning added to every text."""
    path = tmp_path_factory.mktemp("hf")
    given = metadata("smollm2")
    tokens: list[str] = given["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in given["tokenizer.ggml.merges"]]
    library = Library(models.BPE({text: id for id, text in enumerate(tokens)}, merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    library.decoder = decoders.ByteLevel()
    types = given["tokenizer.ggml.token_type"]
    library.add_special_tokens(
        [
            AddedToken(text, special=True)
            for text, kind in zip(tokens, types, strict=True)
            if kind == 3
        ]
    )
    library.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    library.save(str(path / "tokenizer.json"))
    _write(
        path,
        "tokenizer_config.json",
        {
            "bos_token": "<|im_start|>",
            "eos_token": {"content": "<|im_end|>"},
            "chat_template": "{{ messages }}",
        },
    )
    _write(path, "generation_config.json", {"eos_token_id": [2, 5]})
    return path


def _write(path: Path, name: str, value: dict[str, Any]) -> None:
    (path / name).write_text(json.dumps(value))


def test_same_ids_as_the_gguf_file(directory: Path) -> None:
    tokenizer = Tokenizer.from_hf(directory)
    for row in read_xz("smollm2.json.xz")[:120]:
        # Newer Unicode than the library's tables may be cut elsewhere; these texts hold none.
        for parse in (False, True):
            ids = tokenizer.encode(row["text"], add_special=False, parse_special=parse)
            assert ids == row[f"0{parse:d}"], row["text"]
        assert tokenizer.decode(row["01"], special=True).decode() == row["detokenized"]


def test_special_tokens(directory: Path) -> None:
    tokenizer = Tokenizer.from_hf(directory)
    text = "<|im_start|>a"
    assert tokenizer.encode(text, add_special=True, parse_special=True) == [1, 1, 81]
    as_text = tokenizer.encode(text, add_special=False, parse_special=False)
    assert 1 not in as_text
    assert tokenizer.decode(as_text, special=False) == text.encode()
    assert tokenizer.decode([1, 81], special=False) == b"a"
    assert (tokenizer.bos, tokenizer.eos) == (1, 2)
    assert (tokenizer.add_bos, tokenizer.add_eos) == (True, False)
    assert (tokenizer.n_tokens, tokenizer.vocab_type) == (49152, "bpe")
    # The config's, generation_config's, and those known by text: <|endoftext|> and <reponame>.
    assert sorted(tokenizer.eog) == [0, 2, 4, 5]
    assert tokenizer.chat_template == "{{ messages }}"


def test_lone_surrogates(directory: Path) -> None:
    tokenizer = Tokenizer.from_hf(directory)
    assert tokenizer.encode("\ud800", add_special=False, parse_special=False) != []


def test_a_directory_without_tokenizer_json(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTokenizer) as refused:
        Tokenizer.from_hf(tmp_path)
    assert str(refused.value) == f"no tokenizer.json in {tmp_path}"
