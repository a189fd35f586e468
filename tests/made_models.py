"""Writes tiny models for tests, the same bytes every time: `python tests/made_models.py ARCH PATH`.

They are float32 and random, but llama-server computes with them what mlx-lm does, up to rounding,
and their best token leads clearly, so greedy text and seeded sampling can be compared exactly.
All they say is ASCII, since the reference refuses to show output that isn't UTF-8: one number of
every embedding is a large constant, through which the rows of unwanted tokens are pushed down.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CONTEXT = 2048
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_MERGES = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("Ġ", "t"), ("Ġt", "he")]
_PIECES = ["▁t", "he", "in", "an", "▁a", "▁the", "er", "on", "re", "▁s"]
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens as GGUF has them, and which of them the model may say."""

    model: str
    tokens: list[str]
    types: list[int]
    sayable: list[bool]
    bos: int
    eos: int
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)


def byte_level() -> Vocabulary:
    """Three special tokens, the 256 bytes in GPT-2's disguise, and a few merges of them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    disguise = {byte: chr(byte) for byte in shown}
    hidden = [byte for byte in range(256) if byte not in disguise]
    disguise |= {byte: chr(256 + index) for index, byte in enumerate(hidden)}
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merged = [left + right for left, right in _MERGES]
    letters = [disguise[byte] for byte in range(256)]
    return Vocabulary(
        model="gpt2",
        tokens=special + letters + merged,
        types=[_CONTROL] * 3 + [_NORMAL] * (256 + len(merged)),
        sayable=[True] * 3 + [32 <= b < 127 or b == 10 for b in range(256)] + [True] * len(merged),
        bos=1,
        eos=2,
        merges=[f"{left} {right}" for left, right in _MERGES],
    )


def sentence_piece() -> Vocabulary:
    """Control tokens, the 256 byte tokens, printable ASCII, and a few pieces with their scores."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<|im_start|>", "<|im_end|>"]
    letters = ["▁", *(chr(code) for code in range(33, 127))]
    pieces = _PIECES + letters
    return Vocabulary(
        model="llama",
        tokens=special + [f"<0x{byte:02X}>" for byte in range(256)] + pieces,
        types=[_CONTROL] * 3 + [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256
        + [_NORMAL] * len(pieces),
        sayable=[False, True, False, False, False, True] + [byte == 10 for byte in range(256)]
        + [True] * len(pieces),
        bos=2,
        eos=1,
        scores=[0.0] * (6 + 256) + [-float(rank) for rank in range(len(pieces))],
    )  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """What one made model consists of; `architecture` is GGUF's name for it."""

    architecture: str
    vocabulary: Callable[[], Vocabulary] = byte_level
    dim: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    feed_forward: int = 256
    experts: int = 0
    tied: bool = False
    biases: bool = False
    head_norms: bool = False
    post_norms: bool = False
    fused: bool = False
    # With norms behind every block and scaled embeddings, small ones must not drown the blocks.
    embedding_scale: float = 1.0
    output_norm: float = 1.0
    # Chosen so that the best token leads clearly in the texts the tests compare.
    seed: int = 7
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: Callable[[], dict[str, Array]] = dict


def _llama3_factors() -> dict[str, Array]:
    return {"rope_freqs.weight": np.linspace(1, 8, 16).astype(np.float32)}


def _long_and_short_factors() -> dict[str, Array]:
    return {
        "rope_factors_long.weight": np.linspace(1, 6, 12).astype(np.float32),
        "rope_factors_short.weight": np.linspace(1, 1.5, 12).astype(np.float32),
    }


_GEMMA = Recipe(
    "gemma", sentence_piece, tied=True, embedding_scale=0.05, output_norm=4, head_dim=48, seed=33
)
RECIPES = {
    "llama": Recipe("llama"),
    "llama-256": Recipe("llama", dim=256, head_dim=64, feed_forward=512),
    "llama3": Recipe("llama", tied=True, embedding_scale=0.25, extra=_llama3_factors),
    "mixtral": Recipe("llama", experts=4),
    "qwen2": Recipe("qwen2", biases=True),
    "qwen3": Recipe("qwen3", tied=True, embedding_scale=0.25, head_norms=True, head_dim=48),
    "qwen3moe": Recipe("qwen3moe", head_norms=True, head_dim=48, experts=4, seed=17),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, architecture="gemma2", post_norms=True, seed=24),
    "gemma3": replace(
        _GEMMA,
        architecture="gemma3",
        layers=4,
        post_norms=True,
        head_norms=True,
        seed=6,
        metadata={
            "attention.sliding_window": 24,
            "attention.sliding_window_pattern": 2,
            "rope.freq_base": 1000000.0,
        },
    ),
    "phi3": Recipe(
        "phi3",
        sentence_piece,
        fused=True,
        extra=_long_and_short_factors,
        metadata={
            "rope.dimension_count": 24,
            "rope.scaling.original_context_length": 1024,
            "rope.scaling.attn_factor": 1.19,
        },
    ),
}


def write(name: str, path: str | Path, tensor_type: str | None = None) -> None:
    """Write the made model `name` to `path`.

    With `tensor_type`, for example `q4_K`, its matrices are of that type: quantised if the gguf
    package can, random blocks otherwise.
    """
    recipe = RECIPES[name]
    write_recipe(recipe, make_tensors(recipe), path, tensor_type)


def write_recipe(
    recipe: Recipe,
    tensors: Sequence[tuple[str, Array]],
    path: str | Path,
    tensor_type: str | None = None,
) -> None:
    """Write a model with a recipe's metadata and these tensors."""
    writer = gguf.GGUFWriter(str(path), recipe.architecture)
    _write_metadata(writer, recipe)
    _write_vocabulary(writer, recipe.vocabulary())
    writer.add_chat_template(CHAT_TEMPLATE)
    for tensor, values in tensors:
        if tensor_type is None or values.ndim == 1:
            writer.add_tensor(tensor, values)
        else:
            kind = gguf.GGMLQuantizationType[tensor_type.upper()]
            block = gguf.GGML_QUANT_SIZES[kind]
            try:
                blocks = gguf.quants.quantize(values, kind)
            except NotImplementedError:
                blocks = random_blocks(tensor_type, kind.value, block, values.shape)
            writer.add_tensor(tensor, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_metadata(w: gguf.GGUFWriter, recipe: Recipe) -> None:
    w.add_name("made")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(recipe.dim)
    w.add_block_count(recipe.layers)
    w.add_feed_forward_length(recipe.feed_forward)
    w.add_head_count(recipe.heads)
    w.add_head_count_kv(recipe.kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    special = {f"{recipe.architecture}.{key}": value for key, value in recipe.metadata.items()}
    if recipe.head_dim != recipe.dim // recipe.heads:
        w.add_key_length(recipe.head_dim)
        w.add_value_length(recipe.head_dim)
    if f"{recipe.architecture}.rope.dimension_count" not in special:
        w.add_rope_dimension_count(recipe.head_dim)
    if f"{recipe.architecture}.rope.freq_base" not in special:
        w.add_rope_freq_base(10000.0)
    for key, value in special.items():
        (w.add_uint32 if isinstance(value, int) else w.add_float32)(key, value)
    if recipe.experts:
        w.add_expert_count(recipe.experts)
        w.add_expert_used_count(2)
        w.add_expert_feed_forward_length(recipe.feed_forward)
    w.add_vocab_size(len(recipe.vocabulary().tokens))
    w.add_file_type(0)


def _write_vocabulary(w: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    w.add_tokenizer_model(vocabulary.model)
    w.add_tokenizer_pre("gpt-2" if vocabulary.model == "gpt2" else "default")
    w.add_token_list(vocabulary.tokens)
    if vocabulary.scores:
        w.add_token_scores(vocabulary.scores)
    w.add_token_types(vocabulary.types)
    if vocabulary.merges:
        w.add_token_merges(vocabulary.merges)
    w.add_bos_token_id(vocabulary.bos)
    w.add_eos_token_id(vocabulary.eos)
    w.add_add_bos_token(vocabulary.model != "gpt2")


def make_tensors(recipe: Recipe) -> list[tuple[str, Array]]:
    """Every tensor of a made model by GGUF's name, float32, in the file's order."""
    vocabulary = recipe.vocabulary()
    rng = np.random.default_rng(recipe.seed)
    tensors: list[tuple[str, Array]] = []

    def add(name: str, values: Array) -> None:
        tensors.append((name, values.astype(np.float32)))

    def matrix(name: str, *shape: int) -> None:
        add(name, rng.standard_normal(shape) / np.sqrt(shape[-1]))

    def norm(name: str, length: int, value: float = 1.0) -> None:
        add(name, np.full(length, value))

    dim, hidden, experts = recipe.dim, recipe.feed_forward, recipe.experts
    unsayable = ~np.array(vocabulary.sayable)
    embedding = rng.standard_normal((len(vocabulary.tokens), dim)) * recipe.embedding_scale
    embedding[:, 0] = 10 * recipe.embedding_scale
    if recipe.tied:
        embedding[unsayable] = 0
        embedding[unsayable, 0] = -50 * recipe.embedding_scale
    add("token_embd.weight", embedding)
    if not recipe.tied:
        output = (rng.standard_normal((len(vocabulary.tokens), dim)).astype(float)) * 0.25
        output[:, 0] = 0
        output[unsayable] = 0
        output[unsayable, 0] = -50
        add("output.weight", output)
    norm("output_norm.weight", dim, recipe.output_norm)
    q_rows, kv_rows = recipe.heads * recipe.head_dim, recipe.kv_heads * recipe.head_dim
    for layer in range(recipe.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight", dim)
        norm(block + "ffn_norm.weight", dim)
        if recipe.fused:
            matrix(block + "attn_qkv.weight", q_rows + 2 * kv_rows, dim)
        else:
            matrix(block + "attn_q.weight", q_rows, dim)
            matrix(block + "attn_k.weight", kv_rows, dim)
            matrix(block + "attn_v.weight", kv_rows, dim)
        matrix(block + "attn_output.weight", dim, q_rows)
        each = (experts,) if experts else ()
        suffix = "_exps.weight" if experts else ".weight"
        if not recipe.fused:
            matrix(block + "ffn_gate" + suffix, *each, hidden, dim)
        matrix(block + "ffn_up" + suffix, *each, hidden * (2 if recipe.fused else 1), dim)
        matrix(block + "ffn_down" + suffix, *each, dim, hidden)
        if experts:
            matrix(block + "ffn_gate_inp.weight", experts, dim)
        if recipe.biases:
            for name, rows in (("attn_q", q_rows), ("attn_k", kv_rows), ("attn_v", kv_rows)):
                add(f"{block}{name}.bias", rng.standard_normal(rows) * 0.5)
        if recipe.head_norms:
            for name in ("attn_q_norm", "attn_k_norm"):
                add(f"{block}{name}.weight", 1 + 0.2 * rng.standard_normal(recipe.head_dim))
        if recipe.post_norms:
            for name in ("post_attention_norm", "post_ffw_norm"):
                add(f"{block}{name}.weight", 1 + 0.2 * rng.standard_normal(dim))
    return tensors + list(recipe.extra().items())


# Where the blocks of quantised types keep their float16 scales, in bytes from their start.
_SCALES: dict[str, Sequence[int]] = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0],
    "q2_K": [80, 82], "q3_K": [108], "q4_K": [0, 2], "q5_K": [0, 2], "q6_K": [208],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0],
    "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64], "q1_0": [0], "q2_0": [0],
}  # fmt: skip


def random_blocks(
    name: str, number: int, block: tuple[int, int], shape: Sequence[int]
) -> npt.NDArray[np.uint8]:
    """Random quants with scales as a model could have, for values of `shape`: [..., row bytes].

    The type has a name and a number, and its blocks so many values in so many bytes.
    """
    rng = np.random.default_rng(number)
    n_blocks = int(np.prod(shape)) // block[0]
    blocks = rng.integers(0, 256, (n_blocks, block[1]), np.uint8)
    for at in _SCALES.get(name, []):
        scales = rng.uniform(-5e-4, 5e-4, (n_blocks, 1)).astype("<f2")
        blocks[:, at : at + 2] = scales.view(np.uint8)
    if name == "iq1_m":  # Its one float16 is spread over the top four bits of four words.
        blocks[:, 49::2] &= 0x0F
        blocks[:, [55]] |= 0x20
    if name == "mxfp4":
        blocks[:, 0] = rng.integers(120, 130, n_blocks)
    if name == "nvfp4":
        blocks[:, :4] = rng.integers(0, 100, (n_blocks, 4))
    return blocks.reshape(*shape[:-1], -1)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in RECIPES:
        sys.exit(f"usage: python tests/made_models.py ARCH PATH, with ARCH of {', '.join(RECIPES)}")
    write(sys.argv[1], sys.argv[2])
