"""Models with layers that keep a state of fixed size in place of keys and values."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.architecture import (
    BLOCK,
    COMMON,
    LAYER,
    Architecture,
    Change,
    Names,
    experts,
    feed_forward,
    rms_eps,
    still_pairs,
    switch,
    tied_only,
    untied_only,
    whole_heads,
    whole_rotation,
)
from engine.loading.dense import granite_scales
from engine.loading.hparams import Hparams

Tensors = Mapping[str, Any]
Config = dict[str, Any]

_LFM2 = {
    "model.embed_tokens": "token_embd",
    "model.embedding_norm": "token_embd_norm",
    LAYER + "operator_norm": BLOCK + "attn_norm",
    LAYER + "ffn_norm": BLOCK + "ffn_norm",
    LAYER + "self_attn.q_proj": BLOCK + "attn_q",
    LAYER + "self_attn.k_proj": BLOCK + "attn_k",
    LAYER + "self_attn.v_proj": BLOCK + "attn_v",
    LAYER + "self_attn.out_proj": BLOCK + "attn_output",
    LAYER + "self_attn.q_layernorm": BLOCK + "attn_q_norm",
    LAYER + "self_attn.k_layernorm": BLOCK + "attn_k_norm",
    LAYER + "conv.conv": BLOCK + "shortconv.conv",
    LAYER + "conv.in_proj": BLOCK + "shortconv.in_proj",
    LAYER + "conv.out_proj": BLOCK + "shortconv.out_proj",
}
_LFM2_DENSE = _LFM2 | {
    LAYER + "feed_forward.w1": BLOCK + "ffn_gate",
    LAYER + "feed_forward.w2": BLOCK + "ffn_down",
    LAYER + "feed_forward.w3": BLOCK + "ffn_up",
}
_LFM2_MOE = _LFM2 | {
    LAYER + "feed_forward.gate_proj": BLOCK + "ffn_gate",
    LAYER + "feed_forward.down_proj": BLOCK + "ffn_down",
    LAYER + "feed_forward.up_proj": BLOCK + "ffn_up",
    LAYER + "feed_forward.expert_bias": BLOCK + "exp_probs_b.bias",
    **experts("feed_forward"),
}

_SHARED_EXPERT = {
    LAYER + "mlp.shared_expert.gate_proj": BLOCK + "ffn_gate_shexp",
    LAYER + "mlp.shared_expert.up_proj": BLOCK + "ffn_up_shexp",
    LAYER + "mlp.shared_expert.down_proj": BLOCK + "ffn_down_shexp",
    LAYER + "mlp.shared_expert_gate": BLOCK + "ffn_gate_inp_shexp",
}
_DELTA_NET = {
    LAYER + "post_attention_layernorm": BLOCK + "post_attention_norm",
    LAYER + "linear_attn.conv1d": BLOCK + "ssm_conv1d",
    LAYER + "linear_attn.dt_bias": BLOCK + "ssm_dt.bias",
    LAYER + "linear_attn.A_log": BLOCK + "ssm_a",
    LAYER + "linear_attn.norm": BLOCK + "ssm_norm",
    LAYER + "linear_attn.out_proj": BLOCK + "ssm_out",
}
_QWEN3NEXT: Names = {
    **COMMON,
    **_DELTA_NET,
    **_SHARED_EXPERT,
    **experts("mlp"),
    LAYER + "linear_attn.in_proj_qkvz": (BLOCK + "attn_qkv", BLOCK + "attn_gate"),
    LAYER + "linear_attn.in_proj_ba": BLOCK + "ssm_ba",
}
_QWEN35: Names = {
    **COMMON,
    **_DELTA_NET,
    **_SHARED_EXPERT,
    **experts("mlp"),
    LAYER + "linear_attn.in_proj_qkv": BLOCK + "attn_qkv",
    LAYER + "linear_attn.in_proj_z": BLOCK + "attn_gate",
    LAYER + "linear_attn.in_proj_b": BLOCK + "ssm_beta",
    LAYER + "linear_attn.in_proj_a": BLOCK + "ssm_alpha",
}


def _mamba2(module: str) -> dict[str, str]:
    return {
        LAYER + module + ".in_proj": BLOCK + "ssm_in",
        LAYER + module + ".conv1d": BLOCK + "ssm_conv1d",
        LAYER + module + ".dt_bias": BLOCK + "ssm_dt.bias",
        LAYER + module + ".A_log": BLOCK + "ssm_a",
        LAYER + module + ".D": BLOCK + "ssm_d",
        LAYER + module + ".norm": BLOCK + "ssm_norm",
        LAYER + module + ".out_proj": BLOCK + "ssm_out",
    }


_GRANITE_HYBRID: Names = {
    **COMMON,
    **_mamba2("mamba"),
    LAYER + "shared_mlp.input_linear": (BLOCK + "ffn_gate_shexp", BLOCK + "ffn_up_shexp"),
    LAYER + "shared_mlp.output_linear": BLOCK + "ffn_down_shexp",
    LAYER + "block_sparse_moe.router.layer": BLOCK + "ffn_gate_inp",
    **switch("block_sparse_moe.switch_mlp"),
}
_FALCON_H1 = COMMON | _mamba2("mamba") | {
    "model.final_layernorm": "output_norm",
    # The one norm whose tensor has no suffix.
    LAYER + "pre_ff_layernorm.weight": BLOCK + "ffn_norm",
    LAYER + "feed_forward.gate_proj": BLOCK + "ffn_gate",
    LAYER + "feed_forward.up_proj": BLOCK + "ffn_up",
    LAYER + "feed_forward.down_proj": BLOCK + "ffn_down",
}  # fmt: skip
_NEMOTRON_H = {
    "model.embeddings": "token_embd",
    "model.norm_f": "output_norm",
    "lm_head": "output",
    LAYER + "norm": BLOCK + "attn_norm",
    LAYER + "mixer.q_proj": BLOCK + "attn_q",
    LAYER + "mixer.k_proj": BLOCK + "attn_k",
    LAYER + "mixer.v_proj": BLOCK + "attn_v",
    LAYER + "mixer.o_proj": BLOCK + "attn_output",
    LAYER + "mixer.up_proj": BLOCK + "ffn_up",
    LAYER + "mixer.down_proj": BLOCK + "ffn_down",
    LAYER + "mixer.gate": BLOCK + "ffn_gate_inp",
    LAYER + "mixer.gate.e_score_correction_bias": BLOCK + "exp_probs_b.bias",
    LAYER + "mixer.switch_mlp.fc1": BLOCK + "ffn_up_exps",
    LAYER + "mixer.switch_mlp.fc2": BLOCK + "ffn_down_exps",
    LAYER + "mixer.shared_experts.up_proj": BLOCK + "ffn_up_shexp",
    LAYER + "mixer.shared_experts.down_proj": BLOCK + "ffn_down_shexp",
    LAYER + "mixer.fc1_latent_proj": BLOCK + "ffn_latent_down",
    LAYER + "mixer.fc2_latent_proj": BLOCK + "ffn_latent_up",
    **_mamba2("mixer"),
}


def lfm2(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Short convolutions, and attention here and there."""
    _lfm2_config(h, tensors, config)
    h.only("attention.sliding_window", 0, 0)
    config |= {
        "block_dim": h.n_embd,
        "block_multiple_of": 1,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
    }
    return Architecture("lfm2", config, _LFM2_DENSE)


def lfm2moe(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    _lfm2_config(h, tensors, config)
    if h.integer("expert_gating_func") != _SIGMOID:
        raise h.bad("expert_gating_func", "isn't the sigmoid")
    config |= {
        "moe_intermediate_size": h.integer("expert_feed_forward_length"),
        "num_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used,
        "norm_topk_prob": True,
        "use_expert_bias": True,
        "num_dense_layers": h.integer("leading_dense_block_count", 0, least=0),
        "routed_scaling_factor": h.number("expert_weights_scale", 0.0) or 1.0,
    }
    return Architecture("lfm2_moe", config, _LFM2_MOE)


_SIGMOID = 2


def _lfm2_config(h: Hparams, tensors: Tensors, config: Config) -> None:
    feed_forward(h, config)
    whole_heads(h)
    whole_rotation(h)
    tied_only(h, tensors)
    config |= {
        "norm_eps": rms_eps(h),
        "conv_bias": False,
        "conv_L_cache": h.integer("shortconv.l_cache", least=2),
        "full_attn_idxs": _attention_layers(h),
    }


def qwen3next(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Gated delta nets, and attention every few layers; experts and one that all share."""
    _delta_net_config(h, config)
    config |= _qwen_experts(h)
    config["mlp_only_layers"] = []
    nk, nv = config["linear_num_key_heads"], config["linear_num_value_heads"]
    size = config["linear_key_head_dim"]
    changes = {
        LAYER + "linear_attn.A_log": _log_of_negated,
        LAYER + "linear_attn.in_proj_qkvz.weight": lambda x: _by_key_head(x, nk, nv, size),
        LAYER + "linear_attn.in_proj_qkvz.scales": lambda x: _by_key_head(x, nk, nv, size),
        LAYER + "linear_attn.in_proj_qkvz.biases": lambda x: _by_key_head(x, nk, nv, size),
    }
    return Architecture("qwen3_next", config, _QWEN3NEXT, changes, n_layers=_n_layers(h))


def qwen35(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    return _qwen35(h, config, "qwen3_5")


def qwen35moe(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    config |= _qwen_experts(h)
    return _qwen35(h, config, "qwen3_5_moe")


def _qwen35(h: Hparams, config: Config, module: str) -> Architecture:
    _delta_net_config(h, config)
    config["rope_parameters"] = {
        "type": "default",
        "partial_rotary_factor": config["partial_rotary_factor"],
        "rope_theta": config["rope_theta"],
    }
    names = {_below_language_model(path): name for path, name in _QWEN35.items()}
    changes = {_below_language_model(p): c for p, c in _ungrouped_heads(config).items()}
    return Architecture(
        module,
        config,
        names,
        changes,
        n_layers=_n_layers(h),
        keeps_places=True,
        still_pairs=still_pairs(h, interleaved=True),
    )


def _below_language_model(path: str) -> str:
    return "language_model." + path


def _delta_net_config(h: Hparams, config: Config) -> None:
    size, heads = h.integer("ssm.state_size"), h.integer("ssm.time_step_rank")
    if size % 32:
        raise h.bad("ssm.state_size", f"is {size}, no multiple of 32")
    if h.integer("ssm.inner_size") != size * heads:
        raise h.bad("ssm.inner_size", f"isn't {heads} heads of {size}")
    interval = h.integer("full_attention_interval", 4)
    n_layers = _n_layers(h)
    recurrent = h.metadata.get(f"{h.architecture}.attention.recurrent_layers")
    wanted = [(i + 1) % interval != 0 for i in range(n_layers)]
    if isinstance(recurrent, list) and [bool(x) for x in recurrent[:n_layers]] != wanted:
        raise h.bad("attention.recurrent_layers", f"aren't all but every {interval}th")
    if not 1 < interval <= n_layers:
        raise h.bad("full_attention_interval", f"is {interval}, with {n_layers} layers")
    h.only("attention.scale", 0, 0)
    config |= {
        "rms_norm_eps": rms_eps(h),
        "num_hidden_layers": n_layers,
        "intermediate_size": h.integer("feed_forward_length", 0, least=0),
        "full_attention_interval": interval,
        "partial_rotary_factor": h.n_rot / h.head_dim,
        "linear_num_value_heads": heads,
        "linear_num_key_heads": h.integer("ssm.group_count"),
        "linear_key_head_dim": size,
        "linear_value_head_dim": size,
        "linear_conv_kernel_dim": h.integer("ssm.conv_kernel", least=2),
    }


def _qwen_experts(h: Hparams) -> Config:
    length = h.integer("feed_forward_length", 0, least=0)
    per_expert = h.integer("expert_feed_forward_length", 0, least=0)
    return {
        "moe_intermediate_size": per_expert or length // h.n_expert_used,
        "shared_expert_intermediate_size": h.integer(
            "expert_shared_feed_forward_length", 0, least=0
        ) or length or per_expert,
        "num_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
    }  # fmt: skip


def _n_layers(h: Hparams) -> int:
    """Without the layers that only draft."""
    drafting = h.integer("nextn_predict_layers", 0, least=0)
    if drafting >= h.n_layer:
        raise h.bad("nextn_predict_layers", f"is {drafting} of {h.n_layer}")
    return h.n_layer - drafting


def granitehybrid(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Mamba 2, and attention here and there, usually without positions."""
    config |= granite_scales(h)
    feed_forward(h, config)
    whole_heads(h)
    attention = _attention_layers(h)
    inner, heads = _mamba2_sizes(h)
    if h.integer("ssm.group_count") != 1:
        raise h.bad("ssm.group_count", "isn't 1")
    if h.n_expert and not h.integer("expert_shared_feed_forward_length", 0, least=0):
        raise h.bad("expert_shared_feed_forward_length", "is missing")
    rotates = h.metadata.get("granitehybrid.rope.scaling.finetuned") is not False
    config |= {
        "layer_types": [
            "attention" if i in attention else "mamba" for i in range(h.n_layer)
        ],
        "attention_bias": False,
        "num_local_experts": h.n_expert,
        "num_experts_per_tok": h.n_expert_used if h.n_expert else 0,
        "shared_intermediate_size": h.integer("expert_shared_feed_forward_length", 0, least=0),
        "mamba_n_heads": heads,
        "mamba_d_head": inner // heads,
        "mamba_proj_bias": False,
        "mamba_d_state": h.integer("ssm.state_size"),
        "mamba_d_conv": h.integer("ssm.conv_kernel", least=2),
        "mamba_n_groups": 1,
        "mamba_conv_bias": _some_bias(tensors, "ssm_conv1d"),
        "position_embedding_type": "rope" if rotates else "nope",
        "time_step_limit": (0.0, float("inf")),
    }  # fmt: skip
    return Architecture(
        "granitemoehybrid", config, _GRANITE_HYBRID, _mamba2_changes("mamba"), traditional=True
    )


def falcon_h1(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Mamba 2 and attention side by side in every layer; multipliers are in the weights."""
    feed_forward(h, config)
    whole_rotation(h)
    h.only("attention.scale", 0, 0)
    inner, heads = _mamba2_sizes(h)
    groups = h.integer("ssm.group_count")
    normed = "blk.0.ssm_norm.weight" in tensors
    if normed and groups != 1:
        raise h.bad("ssm.group_count", f"is {groups}, which isn't supported with norms")
    ones = dict.fromkeys(
        (
            "attention_in_multiplier",
            "attention_out_multiplier",
            "embedding_multiplier",
            "key_multiplier",
            "lm_head_multiplier",
            "ssm_in_multiplier",
            "ssm_out_multiplier",
        ),
        1.0,
    )
    config |= ones | {
        "rms_norm_eps": rms_eps(h),
        "mlp_multipliers": [1.0] * 2,
        "ssm_multipliers": [1.0] * 5,
        "mamba_conv_bias": _some_bias(tensors, "ssm_conv1d"),
        "mamba_d_conv": h.integer("ssm.conv_kernel", least=2),
        "mamba_d_head": inner // heads,
        "mamba_d_ssm": inner,
        "mamba_d_state": h.integer("ssm.state_size"),
        "mamba_n_groups": groups,
        "mamba_n_heads": heads,
        "mamba_rms_norm": normed,
        "mamba_norm_before_gate": False,
    }
    return Architecture("falcon_h1", config, _FALCON_H1, _mamba2_changes("mamba"))


def nemotron_h(h: Hparams, tensors: Tensors, config: Config) -> Architecture:
    """Layers of one kind each: Mamba 2, attention without positions, or feed-forward."""
    untied_only(h, tensors)
    inner, heads = _mamba2_sizes(h)
    n_layers = _n_layers(h)
    lengths = h.per_layer("feed_forward_length")[:n_layers]
    kv_heads = h.per_layer("attention.head_count_kv")[:n_layers]
    expert = "E" if h.n_expert else "-"
    kinds = [
        expert if length else "*" if kv else "M"
        for length, kv in zip(lengths, kv_heads, strict=True)
    ]
    if not {"M", "*"} <= set(kinds):
        raise h.bad("attention.head_count_kv", "makes no mixture of Mamba and attention")
    if len({length for length in lengths if length}) > 1:
        raise h.bad("feed_forward_length", "differs from layer to layer, which isn't supported")
    config |= {
        "num_hidden_layers": n_layers,
        "hybrid_override_pattern": kinds,
        "intermediate_size": max(lengths),
        "attention_bias": _some_bias(tensors, "attn_q"),
        "mamba_num_heads": heads,
        "mamba_head_dim": inner // heads,
        "mamba_proj_bias": False,
        "ssm_state_size": h.integer("ssm.state_size"),
        "conv_kernel": h.integer("ssm.conv_kernel", least=2),
        "n_groups": h.integer("ssm.group_count"),
        "mlp_bias": _some_bias(tensors, "ffn_up"),
        "layer_norm_epsilon": rms_eps(h),
        "use_bias": False,
        "use_conv_bias": _some_bias(tensors, "ssm_conv1d"),
    }
    if h.n_expert:
        h.only("expert_group_count", 1, 1)
        config |= {
            "n_routed_experts": h.n_expert,
            "num_experts_per_tok": h.n_expert_used,
            "n_shared_experts": 1,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": h.integer("expert_feed_forward_length"),
            "moe_shared_expert_intermediate_size": h.integer("expert_shared_feed_forward_length"),
            "moe_latent_size": h.integer("moe_latent_size", 0, least=0) or None,
            "norm_topk_prob": h.metadata.get(f"{h.architecture}.expert_weights_norm") is True,
            "routed_scaling_factor": h.number("expert_weights_scale", 0.0) or 1.0,
        }
    names = {path.replace("model.", "backbone.", 1): name for path, name in _NEMOTRON_H.items()}
    changes = {
        path.replace("model.", "backbone.", 1): change
        for path, change in _mamba2_changes("mixer").items()
    }
    return Architecture("nemotron_h", config, names, changes, n_layers=n_layers)


def _mamba2_sizes(h: Hparams) -> tuple[int, int]:
    """How many channels Mamba has, and in how many heads."""
    inner, heads = h.integer("ssm.inner_size"), h.integer("ssm.time_step_rank")
    if inner % heads or heads % h.integer("ssm.group_count"):
        raise h.bad("ssm.time_step_rank", f"is {heads}, which doesn't divide {inner} evenly")
    return inner, heads


def _mamba2_changes(module: str) -> dict[str, Change]:
    return {LAYER + module + ".A_log": _log_of_negated}


def _some_bias(tensors: Tensors, stem: str) -> bool:
    return any(name.endswith(f".{stem}.bias") for name in tensors)


def _attention_layers(h: Hparams) -> list[int]:
    """The layers that have keys and values; there must be some, and others too."""
    kv_heads = h.per_layer("attention.head_count_kv")
    layers = [index for index, heads in enumerate(kv_heads) if heads]
    if not 0 < len(layers) < h.n_layer:
        raise ModelError(
            f"{h.path}: {h.architecture} models without layers of both kinds aren't supported"
        )
    return layers


def _log_of_negated(values: mx.array) -> mx.array:
    """GGUF has the state's decay rates as they are used."""
    return mx.log(-values)


def _by_key_head(x: mx.array, nk: int, nv: int, size: int) -> mx.array:
    """Rows of all q, all k, all v, all z, to rows of the q, k, v and z of one key head each."""
    q, k, v, z = mx.split(x, [nk * size, 2 * nk * size, (2 * nk + nv) * size])
    mixed = mx.concatenate([each.reshape(nk, -1, x.shape[1]) for each in (q, k, v, z)], axis=1)
    return mixed.reshape(x.shape)


def _ungrouped_heads(config: Config) -> dict[str, Change]:
    """Brings value heads together that share a key head: GGUF has one of every key head in turn."""
    nk, nv = config["linear_num_key_heads"], config["linear_num_value_heads"]
    if nv % nk:
        return {}
    n_qk = 2 * nk * config["linear_key_head_dim"]

    def rows(x: mx.array) -> mx.array:
        return x.reshape(nv // nk, nk, -1).swapaxes(0, 1).reshape(x.shape)

    def rows_of_v(x: mx.array) -> mx.array:
        return mx.concatenate([x[:n_qk], rows(x[n_qk:])])

    def columns(x: mx.array) -> mx.array:
        return x.reshape(x.shape[0], nv // nk, nk, -1).swapaxes(1, 2).reshape(x.shape)

    module = LAYER + "linear_attn."
    changes: dict[str, Change] = {
        module + "A_log": lambda x: rows(_log_of_negated(x)),
        module + "dt_bias": rows,
        module + "conv1d.weight": rows_of_v,
    }
    for name, change in {
        "in_proj_qkv": rows_of_v, "in_proj_z": rows, "in_proj_b": rows, "in_proj_a": rows,
        "out_proj": columns,
    }.items():  # fmt: skip
        changes |= {f"{module}{name}.{part}": change for part in ("weight", "scales", "biases")}
    return changes
