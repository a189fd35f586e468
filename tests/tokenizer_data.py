"""Reads the recorded vocabularies and answers of tests/data/tokenizer, and makes small ones."""

from __future__ import annotations

import base64
import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.tokenizer.vocab import BYTE_TO_CHAR

DATA = Path(__file__).parent / "data" / "tokenizer"

VECTOR_SEPARATOR = "\n__ggml_vocab_test__\n"


def read_xz(name: str) -> Any:
    """A JSON file, compressed."""
    return json.loads(lzma.decompress((DATA / name).read_bytes()))


@lru_cache(maxsize=3)
def metadata(name: str) -> dict[str, Any]:
    """The tokenizer metadata of a recorded vocabulary, as a GGUF file has it."""
    packed: dict[str, Any] = read_xz(f"vocabs/{name}.json.xz")
    if base := packed.pop("same_as", None):
        gone = packed.pop("without")
        return {k: v for k, v in metadata(base).items() if k not in gone} | packed
    scores = packed.get("tokenizer.ggml.scores")
    if scores is not None:
        planes = np.frombuffer(base64.b64decode(scores["float32_planes"]), np.uint8)
        values = planes.reshape(4, -1).T.copy().view("<f4")[:, 0]
        packed["tokenizer.ggml.scores"] = values.tolist()
    merges = packed.get("tokenizer.ggml.merges")
    if merges is not None:
        packed["tokenizer.ggml.merges"] = _merges(merges, packed["tokenizer.ggml.tokens"])
    charsmap = packed.get("tokenizer.ggml.precompiled_charsmap")
    if charsmap is not None:
        raw = base64.b64decode(charsmap["bytes"])
        packed["tokenizer.ggml.precompiled_charsmap"] = list(raw)
    return packed


def vectors(name: str) -> list[tuple[str, list[int]]]:
    """The texts and ids that llama.cpp keeps beside a vocabulary."""
    raw = (DATA / "vectors" / f"{name}.inp").read_bytes().decode()
    texts = raw.split(VECTOR_SEPARATOR)
    lines = (DATA / "vectors" / f"{name}.out").read_text().splitlines()
    # A separator at the very end begins no text.
    texts = texts[:-1] if raw.endswith(VECTOR_SEPARATOR) else texts
    return list(zip(texts, [[int(id) for id in line.split()] for line in lines], strict=True))


def paired(alphabet: list[str], pre: str) -> dict[str, Any]:
    """A BPE vocabulary of all bytes, in which any two characters of `alphabet` merge."""
    pairs = [(a, b) for a in alphabet for b in alphabet]
    tokens = [*BYTE_TO_CHAR.values(), *(a + b for a, b in pairs), "<|bos|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 1) + [3],
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in pairs],
        "tokenizer.ggml.bos_token_id": len(tokens) - 1,
    }


def _merges(packed: dict[str, list[int]], tokens: list[str]) -> list[str]:
    merges = []
    made = 0
    for step, left in zip(packed["made"], packed["left"], strict=True):
        made += step
        text = tokens[made]
        merges.append(f"{text[:left]} {text[left:]}")
    return merges
