"""Models with layers that see only a window of the context."""

from collections.abc import Mapping
from typing import Any

from engine.loading.architecture import (
    BLOCK,
    COMMON,
    LAYER,
    Architecture,
    feed_forward,
    rms_eps,
    switch,
    tied_only,
    untied_only,
    whole_heads,
    whole_rotation,
)
from engine.loading.hparams import Hparams

Tensors = Mapping[str, Any]
Config = dict[str, Any]

_FOUR_NORMS = {
    LAYER + "post_attention_layernorm": BLOCK + "post_attention_norm",
    LAYER + "pre_feedforward_layernorm": BLOCK + "ffn_norm",
    LAYER + "post_feedforward_layernorm": BLOCK + "post_ffw_norm",
}
_GPT_OSS = {
    LAYER + "post_attention_layernorm": BLOCK + "post_attention_norm",
    LAYER + "self_attn.sinks": BLOCK + "attn_sinks.weight",
    LAYER + "mlp.router": BLOCK + "ffn_gate_inp",
    **switch("mlp.experts"),
}


def gemma(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config["rms_norm_eps"] = rms_eps(h)
    feed_forward(h, config)
    whole_rotation(h)
    return Architecture("gemma", config, norms_hold_one_plus=True)


def gemma2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_rotation(h)
    config |= {
        "rms_norm_eps": rms_eps(h),
        "query_pre_attn_scalar": h.n_embd // h.n_head if h.n_layer == 46 else h.head_dim,
        "attn_logit_softcapping": h.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": h.number("final_logit_softcapping", 30.0),
    }
    # mlx-lm's gemma2 has no sliding window: within one window it makes no difference.
    return Architecture(
        "gemma2",
        config,
        COMMON | _FOUR_NORMS,
        norms_hold_one_plus=True,
        most_context=h.integer("attention.sliding_window", 4096),
    )


def gemma3(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    feed_forward(h, config)
    whole_rotation(h)
    h.only("final_logit_softcapping", 0, 0)
    window = h.integer("attention.sliding_window", 0, least=0)
    period = 1 if window == 0 else _period(h, 6)
    config |= {
        "rms_norm_eps": rms_eps(h),
        "query_pre_attn_scalar": h.n_embd // h.n_head if h.n_layer == 62 else h.head_dim,
        "sliding_window": window,
        "sliding_window_pattern": period,
    }
    return Architecture(
        "gemma3_text",
        config,
        COMMON | _FOUR_NORMS,
        norms_hold_one_plus=True,
        sliding_period=period,
        sliding_base=10000.0,
    )


def gpt_oss(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    untied_only(h, tensors)
    whole_rotation(h)
    period = _period(h, 2)
    layers = range(h.n_layer)
    sliding = [period > 1 and (layer + 1) % period != 0 for layer in layers]
    config |= {
        "rms_norm_eps": rms_eps(h),
        "intermediate_size": h.integer("expert_feed_forward_length"),
        "num_local_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used,
        "sliding_window": h.integer("attention.sliding_window"),
        "layer_types": ["sliding_attention" if each else "full_attention" for each in sliding],
    }
    return Architecture("gpt_oss", config, COMMON | _GPT_OSS, sliding_period=period)


def cohere2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """The layers that see everything know no positions."""
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    tied_only(h, tensors)
    period = _period(h, 4)
    config |= {
        "layer_norm_eps": h.number("attention.layer_norm_epsilon"),
        "logit_scale": h.number("logit_scale") or 1.0,
        "attention_bias": "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors,
        "sliding_window": h.integer("attention.sliding_window"),
        "sliding_window_pattern": period,
    }
    return Architecture("cohere2", config, traditional=True, sliding_period=period)


def _period(h: Hparams, default: int) -> int:
    """How many layers there are to each one that sees everything."""
    pattern = h.metadata.get(f"{h.architecture}.attention.sliding_window_pattern")
    # llama.cpp reads a pattern given layer by layer as if there were none.
    period = default if not isinstance(pattern, int) else pattern or 1
    if h.n_layer < period:
        raise h.bad("block_count", f"is {h.n_layer}, but only every {period}th sees everything")
    return period
