"""Which mlx-lm model a GGUF architecture is, with its configuration and its tensors' names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import ModelError
from engine.loading.hparams import Hparams

_LAYER = "model.layers.{i}."
_BLOCK = "blk.{i}."

# mlx-lm's module paths to GGUF's tensor names, without `.weight` and `.bias`.
_COMMON = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    _LAYER + "input_layernorm": _BLOCK + "attn_norm",
    _LAYER + "self_attn.q_proj": _BLOCK + "attn_q",
    _LAYER + "self_attn.k_proj": _BLOCK + "attn_k",
    _LAYER + "self_attn.v_proj": _BLOCK + "attn_v",
    _LAYER + "self_attn.q_norm": _BLOCK + "attn_q_norm",
    _LAYER + "self_attn.k_norm": _BLOCK + "attn_k_norm",
    _LAYER + "self_attn.o_proj": _BLOCK + "attn_output",
    _LAYER + "post_attention_layernorm": _BLOCK + "ffn_norm",
    _LAYER + "mlp.gate_proj": _BLOCK + "ffn_gate",
    _LAYER + "mlp.up_proj": _BLOCK + "ffn_up",
    _LAYER + "mlp.down_proj": _BLOCK + "ffn_down",
}
_FOUR_NORMS = {
    _LAYER + "post_attention_layernorm": _BLOCK + "post_attention_norm",
    _LAYER + "pre_feedforward_layernorm": _BLOCK + "ffn_norm",
    _LAYER + "post_feedforward_layernorm": _BLOCK + "post_ffw_norm",
}
_FUSED = {
    _LAYER + "self_attn.qkv_proj": _BLOCK + "attn_qkv",
    _LAYER + "mlp.gate_up_proj": _BLOCK + "ffn_up",
}


def _experts(module: str) -> dict[str, str]:
    return {
        _LAYER + module + ".gate": _BLOCK + "ffn_gate_inp",
        _LAYER + module + ".switch_mlp.gate_proj": _BLOCK + "ffn_gate_exps",
        _LAYER + module + ".switch_mlp.up_proj": _BLOCK + "ffn_up_exps",
        _LAYER + module + ".switch_mlp.down_proj": _BLOCK + "ffn_down_exps",
    }


@dataclass(frozen=True)
class Architecture:
    """How to build one model.

    `module` is one of `mlx_lm.models`; `names` maps its module paths to GGUF's tensor names, with
    `{i}` for the layer. `traditional` is the rotary layout of pairs side by side, in which GGUF
    stores Llama's q and k: with it the weights need no reordering. `sliding_period` is how many
    layers there are to each one that sees the whole context, 0 if all do, and `most_context` the
    longest context that is computed rightly, None for any.
    """

    module: str
    config: dict[str, Any]
    names: Mapping[str, str] = field(default_factory=lambda: _COMMON)
    traditional: bool = False
    norms_hold_one_plus: bool = False
    zero_biases: bool = False
    sliding_period: int = 0
    most_context: int | None = None

    def is_sliding(self, layer: int) -> bool:
        """Whether a layer sees only a window of the context."""
        return self.sliding_period > 1 and (layer + 1) % self.sliding_period != 0


def architecture_of(h: Hparams, tensors: Mapping[str, Any], n_vocab: int) -> Architecture:
    """The model for a file's hyperparameters and tensors.

    Raises `ModelError` if the architecture isn't one of `SUPPORTED`, or a variant of it that
    mlx-lm's model doesn't compute.
    """
    build = _BUILDERS.get(h.architecture)
    if build is None:
        raise ModelError(
            f"{h.path}: architecture '{h.architecture}' isn't supported; "
            f"supported are {', '.join(SUPPORTED)}"
        )
    config = {
        "model_type": h.architecture,
        "vocab_size": n_vocab,
        "hidden_size": h.n_embd,
        "num_hidden_layers": h.n_layer,
        "num_attention_heads": h.n_head,
        "num_key_value_heads": h.n_head_kv,
        "head_dim": h.head_dim,
        "rms_norm_eps": h.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": h.number("rope.freq_base", 10000.0),
        "max_position_embeddings": h.n_ctx_train,
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    return build(h, tensors, config)


def _feed_forward(h: Hparams, config: dict[str, Any]) -> None:
    config["intermediate_size"] = h.integer("feed_forward_length")


def _llama(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    h.only("attention.scale", 0, 0)
    _whole_rotation(h)
    if h.n_expert:
        _whole_heads(h)
        config |= {"num_local_experts": h.n_expert, "num_experts_per_tok": h.n_expert_used}
        names = _COMMON | _experts("block_sparse_moe")
        return Architecture("mixtral", config, names, traditional=True)
    config["attention_bias"] = "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors
    config["mlp_bias"] = "blk.0.ffn_gate.bias" in tensors
    return Architecture("llama", config, traditional=True)


def _qwen2(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_heads(h)
    _whole_rotation(h)
    return Architecture("qwen2", config, zero_biases=True)


def _qwen3(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_rotation(h)
    return Architecture("qwen3", config)


def _qwen3moe(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    length = h.integer("feed_forward_length", 0, least=0)
    _whole_rotation(h)
    config |= {
        "intermediate_size": length,
        "moe_intermediate_size": h.integer("expert_feed_forward_length", 0, least=0)
        or length // h.n_expert_used,
        "num_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    return Architecture("qwen3_moe", config, _COMMON | _experts("mlp"))


def _gemma(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_rotation(h)
    return Architecture("gemma", config, norms_hold_one_plus=True)


def _gemma2(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_rotation(h)
    config |= {
        "query_pre_attn_scalar": h.n_embd // h.n_head if h.n_layer == 46 else h.head_dim,
        "attn_logit_softcapping": h.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": h.number("final_logit_softcapping", 30.0),
    }
    # mlx-lm's gemma2 has no sliding window: within one window it makes no difference.
    return Architecture(
        "gemma2",
        config,
        _COMMON | _FOUR_NORMS,
        norms_hold_one_plus=True,
        most_context=h.integer("attention.sliding_window", 4096),
    )


def _gemma3(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_rotation(h)
    h.only("final_logit_softcapping", 0, 0)
    window = h.integer("attention.sliding_window", 0, least=0)
    pattern = h.metadata.get("gemma3.attention.sliding_window_pattern")
    # llama.cpp reads a pattern given layer by layer as if there were none.
    period = 6 if not isinstance(pattern, int) else pattern
    if window == 0 or period == 0:
        period = 1
    if h.n_layer < period:
        raise h.bad("block_count", f"is {h.n_layer}, but only every {period}th sees everything")
    config |= {
        "query_pre_attn_scalar": h.n_embd // h.n_head if h.n_layer == 62 else h.head_dim,
        "sliding_window": window,
        "sliding_window_pattern": period,
    }
    return Architecture(
        "gemma3_text",
        config,
        _COMMON | _FOUR_NORMS,
        norms_hold_one_plus=True,
        sliding_period=period,
    )


def _phi3(h: Hparams, tensors: Mapping[str, Any], config: dict[str, Any]) -> Architecture:
    _feed_forward(h, config)
    _whole_heads(h)
    return Architecture("phi3", config, _COMMON | _FUSED)


def _whole_heads(h: Hparams) -> None:
    """Refuse heads that don't add up to the embedding, where mlx-lm's model takes that for sure."""
    if h.head_dim * h.n_head != h.n_embd:
        raise h.bad("attention.key_length", f"is {h.head_dim}: {h.n_head} don't make {h.n_embd}")


def _whole_rotation(h: Hparams) -> None:
    """Refuse heads that are turned in part, as llama.cpp does for these architectures."""
    if h.n_rot != h.head_dim:
        raise h.bad("rope.dimension_count", f"is {h.n_rot}, not {h.head_dim}")


_BUILDERS: dict[str, Callable[[Hparams, Mapping[str, Any], dict[str, Any]], Architecture]] = {
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "llama": _llama,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3moe,
}
SUPPORTED = tuple(_BUILDERS)
