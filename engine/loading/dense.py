"""Models that see the whole context in every layer, with experts or without."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.loading.architecture import (
    BLOCK,
    COMMON,
    LAYER,
    Architecture,
    experts,
    feed_forward,
    rms_eps,
    still_pairs,
    untied_only,
    whole_heads,
    whole_rotation,
)
from engine.loading.hparams import Hparams

Tensors = Mapping[str, Any]
Config = dict[str, Any]

_FUSED = {
    LAYER + "self_attn.qkv_proj": BLOCK + "attn_qkv",
    LAYER + "mlp.gate_up_proj": BLOCK + "ffn_up",
}
# Norms behind the blocks, and none before them.
_POST_NORMS_ONLY = {
    LAYER + "post_attention_layernorm": BLOCK + "post_attention_norm",
    LAYER + "post_feedforward_layernorm": BLOCK + "post_ffw_norm",
}
_GLM4 = {
    LAYER + "post_self_attn_layernorm": BLOCK + "post_attention_norm",
    LAYER + "post_mlp_layernorm": BLOCK + "post_ffw_norm",
    LAYER + "mlp.gate_up_proj": BLOCK + "ffn_up",
}
_STARCODER2 = {
    LAYER + "mlp.c_fc": BLOCK + "ffn_up",
    LAYER + "mlp.c_proj": BLOCK + "ffn_down",
}


def llama(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    h.only("attention.scale", 0, 0)
    whole_rotation(h)
    if h.n_expert:
        whole_heads(h)
        config |= {"num_local_experts": h.n_expert, "num_experts_per_tok": h.n_expert_used}
        names = COMMON | experts("block_sparse_moe")
        return Architecture("mixtral", config, names, traditional=True)
    _biases(tensors, config)
    return Architecture("llama", config, traditional=True)


def mistral3(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Ministral 3 and its like: Llama, but for queries that grow with the position."""
    h.only("attention.temperature_scale", 0, 0)
    config["model_type"] = "llama"
    return llama(h, tensors, config)


def qwen2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    return Architecture("qwen2", config, zero_biases=True)


def qwen2vl(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """The half of Qwen2-VL and Qwen2.5-VL that reads text."""
    still = still_pairs(h, interleaved=False)
    return replace(qwen2(h, tensors, config), keeps_places=True, still_pairs=still)


def qwen3(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_rotation(h)
    return Architecture("qwen3", config)


def qwen3vl(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """The half of Qwen3-VL that reads text."""
    still = still_pairs(h, interleaved=True)
    return replace(qwen3(h, tensors, config), keeps_places=True, still_pairs=still)


def qwen3moe(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    length = h.integer("feed_forward_length", 0, least=0)
    whole_rotation(h)
    config |= {
        "rms_norm_eps": rms_eps(h),
        "intermediate_size": length,
        "moe_intermediate_size": h.integer("expert_feed_forward_length", 0, least=0)
        or length // h.n_expert_used,
        "num_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    return Architecture("qwen3_moe", config, COMMON | experts("mlp"))


def qwen3vlmoe(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """The half of Qwen3-VL with experts that reads text."""
    still = still_pairs(h, interleaved=True)
    return replace(qwen3moe(h, tensors, config), keeps_places=True, still_pairs=still)


def phi3(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_heads(h)
    return Architecture("phi3", config, COMMON | _FUSED)


def granite(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    if h.metadata.get("granite.rope.scaling.finetuned") is False:
        raise h.bad("rope.scaling.finetuned", "is false: a model without positions")
    _biases(tensors, config)
    config |= granite_scales(h)
    return Architecture("granite", config, traditional=True)


def granite_scales(h: Hparams) -> Config:
    """The constants by which Granite models multiply here and there; 0 in a file means none."""
    return {
        "rms_norm_eps": rms_eps(h),
        "attention_multiplier": h.number("attention.scale", 0.0) or h.head_dim**-0.5,
        "embedding_multiplier": h.number("embedding_scale", 0.0) or 1.0,
        "residual_multiplier": h.number("residual_scale", 0.0) or 1.0,
        "logits_scaling": h.number("logit_scale", 0.0) or 1.0,
    }


def olmo2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    untied_only(h, tensors)
    h.only("attention.sliding_window", 0, 0)
    return Architecture("olmo2", config, COMMON | _POST_NORMS_ONLY)


def smollm3(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Every fourth layer knows no positions."""
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_rotation(h)
    return Architecture("smollm3", config, traditional=True)


def glm4(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    untied_only(h, tensors)
    h.only("nextn_predict_layers", 0, 0)
    if sum(h.integers("rope.dimension_sections", [])[:3]):
        raise h.bad("rope.dimension_sections", "makes it a model for images")
    config |= {
        "rms_norm_eps": rms_eps(h),
        "attention_bias": "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors,
        "partial_rotary_factor": h.n_rot / h.head_dim,
    }
    return Architecture("glm4", config, COMMON | _GLM4, traditional=True)


def ernie4_5(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_rotation(h)
    config |= {"rms_norm_eps": rms_eps(h), "use_bias": "blk.0.attn_output.bias" in tensors}
    return Architecture("ernie4_5", config, traditional=True)


def seed_oss(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_rotation(h)
    config |= {
        "rms_norm_eps": rms_eps(h),
        "attention_bias": "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors,
    }
    post_norm = {LAYER + "post_attention_layernorm": BLOCK + "post_attention_norm"}
    return Architecture("seed_oss", config, COMMON | post_norm)


def starcoder2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    config["norm_epsilon"] = h.number("attention.layer_norm_epsilon")
    return Architecture("starcoder2", config, COMMON | _STARCODER2)


def _biases(tensors: Tensors, config: Config) -> None:
    config["attention_bias"] = "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors
    config["mlp_bias"] = "blk.0.ffn_gate.bias" in tensors
