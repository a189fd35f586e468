"""Writes tiny models for tests, the same bytes every time: `python -m tests.made_models ARCH PATH`.

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

from tests import made_layers
from tests.made_layers import Array, Maker

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
    layer: made_layers.Layer = made_layers.llama_layer
    last_norm: str = "output_norm"


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
_DELTA_NET = Recipe(
    "qwen35",
    layer=made_layers.delta_net_layer,
    layers=4,
    feed_forward=128,
    metadata={
        "full_attention_interval": 2,
        "rope.dimension_count": 16,
        "rope.dimension_sections": [3, 3, 2, 0],
        "ssm.conv_kernel": 4,
        "ssm.state_size": 32,
        "ssm.group_count": 2,
        "ssm.time_step_rank": 4,
        "ssm.inner_size": 128,
    },
)
_MAMBA2 = {
    "ssm.conv_kernel": 4,
    "ssm.state_size": 32,
    "ssm.group_count": 1,
    "ssm.time_step_rank": 8,
    "ssm.inner_size": 256,
}
_MAMBA2_GROUPS = _MAMBA2 | {"ssm.group_count": 2, "attention.layer_norm_epsilon": 1e-5}
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
    "granite": Recipe(
        "granite",
        metadata={
            "attention.scale": 0.25,
            "embedding_scale": 1.5,
            "residual_scale": 0.75,
            "logit_scale": 0.5,
        },
    ),
    "olmo2": Recipe("olmo2", layer=made_layers.olmo2_layer),
    "smollm3": Recipe("smollm3", layers=4, tied=True, embedding_scale=0.25),
    "glm4": Recipe("glm4", layer=made_layers.glm4_layer, metadata={"rope.dimension_count": 16}),
    "ernie4_5": Recipe("ernie4_5", tied=True, embedding_scale=0.25),
    "seed_oss": Recipe("seed_oss", layer=made_layers.seed_oss_layer, head_dim=48),
    "mistral3": Recipe("mistral3", head_dim=48),
    "qwen2vl": Recipe("qwen2vl", biases=True, metadata={"rope.dimension_sections": [6, 5, 5, 0]}),
    "qwen3vl": Recipe(
        "qwen3vl",
        tied=True,
        embedding_scale=0.25,
        head_norms=True,
        seed=25,
        metadata={"rope.dimension_sections": [8, 4, 4, 0]},
    ),
    "starcoder2": Recipe(
        "starcoder2",
        layer=made_layers.starcoder2_layer,
        seed=3,
        metadata={"attention.layer_norm_epsilon": 1e-5},
    ),
    "cohere2": Recipe(
        "cohere2",
        layer=made_layers.cohere2_layer,
        layers=4,
        tied=True,
        embedding_scale=0.25,
        metadata={
            "attention.layer_norm_epsilon": 1e-5,
            "attention.sliding_window": 24,
            "attention.sliding_window_pattern": 2,
            "logit_scale": 0.5,
        },
    ),
    "gpt-oss": Recipe(
        "gpt-oss",
        layer=made_layers.gpt_oss_layer,
        layers=4,
        head_dim=48,
        experts=4,
        metadata={
            "attention.sliding_window": 24,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 512,
        },
    ),
    "lfm2": Recipe(
        "lfm2",
        layer=made_layers.lfm2_layer,
        layers=4,
        tied=True,
        embedding_scale=0.25,
        last_norm="token_embd_norm",
        seed=2,
        metadata={"attention.head_count_kv": [0, 2, 0, 2], "shortconv.l_cache": 3},
    ),
    "lfm2moe": Recipe(
        "lfm2moe",
        layer=made_layers.lfm2_layer,
        layers=4,
        experts=4,
        tied=True,
        embedding_scale=0.25,
        last_norm="token_embd_norm",
        seed=6,
        metadata={
            "attention.head_count_kv": [0, 0, 2, 0],
            "shortconv.l_cache": 4,
            "leading_dense_block_count": 2,
            "expert_gating_func": 2,
        },
    ),
    "qwen35": _DELTA_NET,
    "qwen35moe": replace(_DELTA_NET, architecture="qwen35moe", experts=4),
    "qwen3next": replace(_DELTA_NET, architecture="qwen3next", experts=4),
    "granitehybrid": Recipe(
        "granitehybrid",
        layer=made_layers.granite_hybrid_layer,
        layers=4,
        metadata=_MAMBA2
        | {
            "attention.head_count_kv": [0, 2, 0, 0],
            "rope.scaling.finetuned": False,
            "residual_scale": 0.75,
            "embedding_scale": 1.5,
        },
    ),
    "granitehybrid-moe": Recipe(
        "granitehybrid",
        layer=made_layers.granite_hybrid_layer,
        layers=3,
        experts=4,
        metadata=_MAMBA2
        | {"attention.head_count_kv": [0, 2, 0], "expert_shared_feed_forward_length": 256},
    ),
    "falcon-h1": Recipe("falcon-h1", layer=made_layers.falcon_h1_layer, metadata=_MAMBA2),
    "nemotron_h": Recipe(
        "nemotron_h",
        layer=made_layers.nemotron_h_layer,
        layers=5,
        metadata=_MAMBA2_GROUPS
        | {
            "attention.head_count_kv": [0, 0, 2, 0, 0],
            "feed_forward_length": [0, 256, 0, 256, 0],
        },
    ),
    "nemotron_h_moe": Recipe(
        "nemotron_h_moe",
        layer=made_layers.nemotron_h_layer,
        layers=4,
        experts=4,
        seed=9,
        metadata=_MAMBA2_GROUPS
        | {
            "attention.head_count_kv": [0, 0, 2, 0],
            "feed_forward_length": [0, 256, 0, 256],
            "expert_shared_feed_forward_length": 256,
            "expert_weights_norm": True,
            "expert_weights_scale": 2.5,
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
        kind = gguf.GGMLQuantizationType[(tensor_type or "f32").upper()]
        block = gguf.GGML_QUANT_SIZES[kind]
        if tensor_type is None or values.ndim == 1 or values.shape[-1] % block[0]:
            writer.add_tensor(tensor, values)
        else:
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
    if "feed_forward_length" not in recipe.metadata:
        w.add_feed_forward_length(recipe.feed_forward)
    w.add_head_count(recipe.heads)
    if "attention.head_count_kv" not in recipe.metadata:
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
        if isinstance(value, list):
            w.add_array(key, value)
        else:
            kinds = {
                bool: w.add_bool, int: w.add_uint32, float: w.add_float32, str: w.add_string,
            }  # fmt: skip
            kinds[type(value)](key, value)
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
    m = Maker(recipe.seed)
    dim = recipe.dim
    unsayable = ~np.array(vocabulary.sayable)
    embedding = m.rng.standard_normal((len(vocabulary.tokens), dim)) * recipe.embedding_scale
    embedding[:, 0] = 10 * recipe.embedding_scale
    if recipe.tied:
        embedding[unsayable] = 0
        embedding[unsayable, 0] = -50 * recipe.embedding_scale
    m.add("token_embd.weight", embedding)
    if not recipe.tied:
        output = (m.rng.standard_normal((len(vocabulary.tokens), dim)).astype(float)) * 0.25
        output[:, 0] = 0
        output[unsayable] = 0
        output[unsayable, 0] = -50
        m.add("output.weight", output)
    m.norm(recipe.last_norm + ".weight", dim, recipe.output_norm)
    if recipe.architecture == "starcoder2":
        m.add("output_norm.bias", np.zeros(dim))
    for layer in range(recipe.layers):
        recipe.layer(m, recipe, layer)
    return m.tensors + list(recipe.extra().items())


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
        sys.exit(f"usage: python -m tests.made_models ARCH PATH, with ARCH of {', '.join(RECIPES)}")
    write(sys.argv[1], sys.argv[2])
