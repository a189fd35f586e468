"""A model's size, file type and vocabulary type in llama.cpp's words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from engine.loading.hparams import Hparams

VOCAB_TYPES = {
    "llama": 1, "gpt2": 2, "hybriddna": 2, "whitespace": 2, "gemma4": 2, "bert": 3, "t5": 4,
    "rwkv": 5, "plamo2": 6,
}  # fmt: skip

_FILE_TYPES = {
    0: "all F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1",
    10: "Q2_K - Medium", 11: "Q3_K - Small", 12: "Q3_K - Medium", 13: "Q3_K - Large",
    14: "Q4_K - Small", 15: "Q4_K - Medium", 16: "Q5_K - Small", 17: "Q5_K - Medium", 18: "Q6_K",
    19: "IQ2_XXS - 2.0625 bpw", 20: "IQ2_XS - 2.3125 bpw", 21: "Q2_K - Small",
    22: "IQ3_XS - 3.3 bpw", 23: "IQ3_XXS - 3.0625 bpw", 24: "IQ1_S - 1.5625 bpw",
    25: "IQ4_NL - 4.5 bpw", 26: "IQ3_S - 3.4375 bpw", 27: "IQ3_S mix - 3.66 bpw",
    28: "IQ2_S - 2.5 bpw", 29: "IQ2_M - 2.7 bpw", 30: "IQ4_XS - 4.25 bpw", 31: "IQ1_M - 1.75 bpw",
    32: "BF16", 36: "TQ1_0 - 1.69 bpw ternary", 37: "TQ2_0 - 2.06 bpw ternary", 38: "MXFP4 MoE",
    39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip

# The file type llama.cpp guesses from the commonest tensor type, where the file doesn't say.
_GUESSES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_K": 10,
    "q3_K": 12, "q4_K": 15, "q5_K": 17, "q6_K": 18, "iq2_xxs": 19, "iq2_xs": 20, "iq3_xxs": 23,
    "iq1_s": 24, "iq4_nl": 25, "iq3_s": 26, "iq2_s": 28, "iq4_xs": 30, "iq1_m": 31, "bf16": 32,
    "tq1_0": 36, "tq2_0": 37, "nvfp4": 39, "q1_0": 40, "q2_0": 41,
}  # fmt: skip


def vocab_type(metadata: Mapping[str, Any]) -> int:
    """llama.cpp's number for the kind of tokenizer, 0 for none."""
    model = metadata.get("tokenizer.ggml.model")
    return VOCAB_TYPES.get(model, 0) if isinstance(model, str) else 0


def file_type(metadata: Mapping[str, Any], types: Iterable[str]) -> str:
    """The file type's name, for example `Q4_K - Medium`, as `/v1/models` shows it."""
    stated = metadata.get("general.file_type")
    if isinstance(stated, int):
        # A stated type may itself be marked as guessed.
        prefix = "(guessed) " if stated & 1024 else ""
        return prefix + _FILE_TYPES.get(stated & ~1024, "unknown, may not work")
    # The first type to reach the highest count wins.
    counts: Counter[str] = Counter()
    commonest = "f32"
    for name in types:
        counts[name] += 1
        if counts[name] > counts[commonest] or len(counts) == 1:
            commonest = name
    return "(guessed) " + _FILE_TYPES[_GUESSES.get(commonest, 0)]


def size_name(h: Hparams, n_vocab: int) -> str:
    """llama.cpp's name for a model of this many layers, `?B` if it has none."""
    layers, width = h.n_layer, h.n_embd
    by_layers: dict[int, str] = {}
    if h.architecture == "llama" and h.n_expert == 8:
        by_layers = {32: "8x7B", 56: "8x22B"}
    elif h.architecture == "llama":
        by_layers = {
            16: "1B", 22: "1B", 26: "3B", 28: "3B", 30: "256M",
            32: "3B" if n_vocab == 49152 else "7B" if n_vocab < 40000 else "8B",
            36: "8B", 40: "13B", 48: "34B", 60: "30B",
            80: "65B" if h.n_head == h.n_head_kv else "70B",
        }  # fmt: skip
    elif h.architecture == "qwen2":
        by_layers = {
            24: "0.5B" if width == 1024 else "1B", 28: "1.5B" if width == 1536 else "7B",
            32: "7B", 36: "3B", 40: "4B" if h.n_head == 20 else "13B", 48: "14B", 64: "32B",
            80: "70B",
        }  # fmt: skip
    elif h.architecture == "qwen3":
        by_layers = {
            28: "0.6B" if width == 1024 else "1.7B", 36: "4B" if width == 2560 else "8B",
            40: "14B", 64: "32B",
        }  # fmt: skip
    elif h.architecture == "qwen35":
        by_layers = {
            24: "0.8B" if width == 1024 else "2B", 32: "4B" if width == 2560 else "9B", 64: "27B",
        }  # fmt: skip
    elif h.architecture == "qwen3vl":
        by_layers = {28: "1.7B", 36: "4B" if width == 2560 else "8B", 64: "32B"}
    elif h.architecture == "lfm2":
        length = h.integer("feed_forward_length", 0, least=0)
        by_layers = {layers: _LFM2_BY_LENGTH.get(length, "?B")}
    elif h.architecture == "granitehybrid":
        small = "7B.A1B" if h.integer("feed_forward_length", 0, least=0) == 512 else "1B"
        by_width = {768: "350M", 1536: small, 2048: "3B", 2560: "3B", 4096: "32B"}
        by_layers = {layers: by_width.get(width, "?B")}
    else:
        by_layers = _BY_LAYERS.get(h.architecture, {})
    return by_layers.get(layers, "?B")


_LFM2_BY_LENGTH = {2560: "230M", 4608: "350M", 6912: "700M", 8192: "1.2B", 10752: "2.6B"}
_BY_LAYERS = {
    "cohere2": {32: "8B"},
    "ernie4_5": {18: "0.3B"},
    "falcon-h1": {36: "0.5B", 24: "1.5B", 66: "1B", 32: "3B", 44: "7B", 72: "34B"},
    "glm4": {17: "1B", 40: "9B", 61: "32B"},
    "gpt-oss": {24: "20B", 36: "120B"},
    "granite": {32: "3B", 40: "3B"},
    "lfm2moe": {24: "8B.A1B", 40: "24B.A2B"},
    "mistral3": {26: "3B", 34: "8B", 40: "14B"},
    "nemotron_h": {52: "31B.A3.5B", 56: "9B", 88: "120B.A12B"},
    "nemotron_h_moe": {52: "31B.A3.5B", 56: "9B", 88: "120B.A12B"},
    "olmo2": {16: "1B", 32: "7B", 40: "13B", 64: "32B"},
    "qwen35moe": {40: "35B.A3B", 48: "122B.A10B", 60: "397B.A17B"},
    "qwen3next": {48: "80B.A3B"},
    "qwen3vlmoe": {48: "30B.A3B", 94: "235B.A22B"},
    "seed_oss": {64: "36B"},
    "smollm3": {36: "3B"},
    "starcoder2": {30: "3B", 32: "7B", 40: "15B", 52: "20B", 88: "34B"},
    "gemma": {18: "2B", 28: "7B"},
    "gemma2": {26: "2B", 42: "9B", 46: "27B"},
    "gemma3": {18: "270M", 26: "1B", 32: "8B", 34: "4B", 48: "12B", 62: "27B"},
    "phi3": {24: "1B", 32: "3B", 40: "14B"},
    "qwen3moe": {48: "30B.A3B", 94: "235B.A22B"},
}
