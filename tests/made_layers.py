"""The tensors of made models, layer by layer: attention, feed-forward, and layers with a state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Maker:
    """Collects a model's tensors, float32, in the file's order; random numbers come in order."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: list[tuple[str, Array]] = []

    def add(self, name: str, values: Array) -> None:
        """A tensor with these values."""
        self.tensors.append((name, values.astype(np.float32)))

    def matrix(self, name: str, *shape: int) -> None:
        """Normally distributed numbers that keep a vector's length."""
        self.add(name, self.rng.standard_normal(shape) / np.sqrt(shape[-1]))

    def norm(self, name: str, length: int, value: float = 1.0) -> None:
        """The same number all over."""
        self.add(name, np.full(length, value))

    def near_one(self, name: str, *shape: int) -> None:
        """Numbers around 1."""
        self.add(name, 1 + 0.2 * self.rng.standard_normal(shape))

    def small(self, name: str, *shape: int) -> None:
        """Numbers around 0, as biases are."""
        self.add(name, self.rng.standard_normal(shape) * 0.5)


# Makes one layer of a recipe.
Layer = Callable[[Maker, Any, int], None]


def llama_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention and feed-forward with experts or without, each behind its norm."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.norm(block + "ffn_norm.weight", r.dim)
    _attention_matrices(m, r, block)
    _feed_forward_matrices(m, r, block)
    if r.biases:
        for name, rows in zip(("attn_q", "attn_k", "attn_v"), _qkv_rows(r), strict=True):
            m.small(f"{block}{name}.bias", rows)
    if r.head_norms:
        for name in ("attn_q_norm", "attn_k_norm"):
            m.near_one(f"{block}{name}.weight", r.head_dim)
    if r.post_norms:
        for name in ("post_attention_norm", "post_ffw_norm"):
            m.near_one(f"{block}{name}.weight", r.dim)


def _qkv_rows(r: Any) -> tuple[int, int, int]:
    kv_rows = r.kv_heads * r.head_dim
    return r.heads * r.head_dim, kv_rows, kv_rows


def _attention_matrices(m: Maker, r: Any, block: str) -> None:
    q_rows, kv_rows, _ = _qkv_rows(r)
    if r.fused:
        m.matrix(block + "attn_qkv.weight", q_rows + 2 * kv_rows, r.dim)
    else:
        m.matrix(block + "attn_q.weight", q_rows, r.dim)
        m.matrix(block + "attn_k.weight", kv_rows, r.dim)
        m.matrix(block + "attn_v.weight", kv_rows, r.dim)
    m.matrix(block + "attn_output.weight", r.dim, q_rows)


def _feed_forward_matrices(m: Maker, r: Any, block: str) -> None:
    each = (r.experts,) if r.experts else ()
    suffix = "_exps.weight" if r.experts else ".weight"
    if not r.fused:
        m.matrix(block + "ffn_gate" + suffix, *each, r.feed_forward, r.dim)
    m.matrix(block + "ffn_up" + suffix, *each, r.feed_forward * (2 if r.fused else 1), r.dim)
    m.matrix(block + "ffn_down" + suffix, *each, r.dim, r.feed_forward)
    if r.experts:
        m.matrix(block + "ffn_gate_inp.weight", r.experts, r.dim)


def glm4_layer(m: Maker, r: Any, layer: int) -> None:
    """Norms before and behind, gate and up in one."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.norm(block + "ffn_norm.weight", r.dim)
    for name in ("post_attention_norm", "post_ffw_norm"):
        m.near_one(f"{block}{name}.weight", r.dim)
    _attention_matrices(m, r, block)
    for name, rows in zip(("attn_q", "attn_k", "attn_v"), _qkv_rows(r), strict=True):
        m.small(f"{block}{name}.bias", rows)
    m.matrix(block + "ffn_up.weight", 2 * r.feed_forward, r.dim)
    m.matrix(block + "ffn_down.weight", r.dim, r.feed_forward)


def olmo2_layer(m: Maker, r: Any, layer: int) -> None:
    """Norms behind only, and over all heads of queries and keys at once."""
    block = f"blk.{layer}."
    q_rows, kv_rows, _ = _qkv_rows(r)
    _attention_matrices(m, r, block)
    _feed_forward_matrices(m, r, block)
    m.near_one(block + "attn_q_norm.weight", q_rows)
    m.near_one(block + "attn_k_norm.weight", kv_rows)
    m.near_one(block + "post_attention_norm.weight", r.dim)
    m.near_one(block + "post_ffw_norm.weight", r.dim)


def cohere2_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention and feed-forward side by side, behind one norm."""
    block = f"blk.{layer}."
    m.near_one(block + "attn_norm.weight", r.dim)
    _attention_matrices(m, r, block)
    _feed_forward_matrices(m, r, block)


def starcoder2_layer(m: Maker, r: Any, layer: int) -> None:
    """Everything with a bias, and no gate."""
    block = f"blk.{layer}."
    for name in ("attn_norm", "ffn_norm"):
        m.near_one(f"{block}{name}.weight", r.dim)
        m.small(f"{block}{name}.bias", r.dim)
    _attention_matrices(m, r, block)
    m.matrix(block + "ffn_up.weight", r.feed_forward, r.dim)
    m.matrix(block + "ffn_down.weight", r.dim, r.feed_forward)
    rows = dict(zip(("attn_q", "attn_k", "attn_v"), _qkv_rows(r), strict=True))
    rows |= {"attn_output": r.dim, "ffn_up": r.feed_forward, "ffn_down": r.dim}
    for name, length in rows.items():
        m.small(f"{block}{name}.bias", length)


def gpt_oss_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention with sinks, experts, and a bias everywhere."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.near_one(block + "post_attention_norm.weight", r.dim)
    _attention_matrices(m, r, block)
    m.small(block + "attn_sinks.weight", r.heads)
    _feed_forward_matrices(m, r, block)
    rows = dict(zip(("attn_q", "attn_k", "attn_v"), _qkv_rows(r), strict=True))
    for name, length in (rows | {"attn_output": r.dim, "ffn_gate_inp": r.experts}).items():
        m.small(f"{block}{name}.bias", length)
    lengths = {"ffn_gate": r.feed_forward, "ffn_up": r.feed_forward, "ffn_down": r.dim}
    for name, length in lengths.items():
        m.small(f"{block}{name}_exps.bias", r.experts, length)


def seed_oss_layer(m: Maker, r: Any, layer: int) -> None:
    """Llama's with biases for queries, keys and values, and another name for a norm."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.near_one(block + "post_attention_norm.weight", r.dim)
    _attention_matrices(m, r, block)
    _feed_forward_matrices(m, r, block)
    for name, rows in zip(("attn_q", "attn_k", "attn_v"), _qkv_rows(r), strict=True):
        m.small(f"{block}{name}.bias", rows)


def lfm2_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention where the recipe has heads for keys, else a short convolution."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.norm(block + "ffn_norm.weight", r.dim)
    if r.metadata["attention.head_count_kv"][layer]:
        _attention_matrices(m, r, block)
        m.near_one(block + "attn_q_norm.weight", r.head_dim)
        m.near_one(block + "attn_k_norm.weight", r.head_dim)
    else:
        m.matrix(block + "shortconv.conv.weight", r.dim, r.metadata["shortconv.l_cache"])
        m.matrix(block + "shortconv.in_proj.weight", 3 * r.dim, r.dim)
        m.matrix(block + "shortconv.out_proj.weight", r.dim, r.dim)
    if layer < r.metadata.get("leading_dense_block_count", r.layers):
        for name, shape in (
            ("ffn_gate", (r.feed_forward, r.dim)),
            ("ffn_up", (r.feed_forward, r.dim)),
            ("ffn_down", (r.dim, r.feed_forward)),
        ):
            m.matrix(f"{block}{name}.weight", *shape)
    else:
        _feed_forward_matrices(m, r, block)
        m.small(block + "exp_probs_b.bias", r.experts)


def delta_net_layer(m: Maker, r: Any, layer: int) -> None:
    """A gated delta net, or every few layers attention with a gate; experts if there are any."""
    block = f"blk.{layer}."
    size, nk = r.metadata["ssm.state_size"], r.metadata["ssm.group_count"]
    nv, kernel = r.metadata["ssm.time_step_rank"], r.metadata["ssm.conv_kernel"]
    m.norm(block + "attn_norm.weight", r.dim)
    m.near_one(block + "post_attention_norm.weight", r.dim)
    if (layer + 1) % r.metadata["full_attention_interval"] == 0:
        q_rows, kv_rows, _ = _qkv_rows(r)
        m.matrix(block + "attn_q.weight", 2 * q_rows, r.dim)
        m.matrix(block + "attn_k.weight", kv_rows, r.dim)
        m.matrix(block + "attn_v.weight", kv_rows, r.dim)
        m.matrix(block + "attn_output.weight", r.dim, q_rows)
        m.near_one(block + "attn_q_norm.weight", r.head_dim)
        m.near_one(block + "attn_k_norm.weight", r.head_dim)
    else:
        n_qkv = (2 * nk + nv) * size
        m.matrix(block + "attn_qkv.weight", n_qkv, r.dim)
        m.matrix(block + "attn_gate.weight", nv * size, r.dim)
        m.matrix(block + "ssm_conv1d.weight", n_qkv, kernel)
        m.small(block + "ssm_dt.bias", nv)
        m.add(block + "ssm_a", -m.rng.uniform(0.1, 2, nv))
        if r.architecture == "qwen3next":
            m.matrix(block + "ssm_ba.weight", 2 * nv, r.dim)
        else:
            m.matrix(block + "ssm_beta.weight", nv, r.dim)
            m.matrix(block + "ssm_alpha.weight", nv, r.dim)
        m.near_one(block + "ssm_norm.weight", size)
        m.matrix(block + "ssm_out.weight", r.dim, nv * size)
    _feed_forward_matrices(m, r, block)
    if r.experts:
        _shared_expert(m, r, block, gated=True)
        m.add(block + "ffn_gate_inp_shexp.weight", m.rng.standard_normal(r.dim) / np.sqrt(r.dim))


def _shared_expert(m: Maker, r: Any, block: str, *, gated: bool) -> None:
    if gated:
        m.matrix(block + "ffn_gate_shexp.weight", r.feed_forward, r.dim)
    m.matrix(block + "ffn_up_shexp.weight", r.feed_forward, r.dim)
    m.matrix(block + "ffn_down_shexp.weight", r.dim, r.feed_forward)


def granite_hybrid_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention where the recipe has heads for keys, else Mamba 2; a shared expert if any."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.norm(block + "ffn_norm.weight", r.dim)
    if r.metadata["attention.head_count_kv"][layer]:
        _attention_matrices(m, r, block)
    else:
        _mamba2(m, r, block)
    _feed_forward_matrices(m, r, block)
    if r.experts:
        _shared_expert(m, r, block, gated=True)


def falcon_h1_layer(m: Maker, r: Any, layer: int) -> None:
    """Attention and Mamba 2 side by side."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    m.norm(block + "ffn_norm", r.dim)
    _attention_matrices(m, r, block)
    _mamba2(m, r, block)
    _feed_forward_matrices(m, r, block)


def nemotron_h_layer(m: Maker, r: Any, layer: int) -> None:
    """Mamba 2, attention or feed-forward, as the recipe's lists say."""
    block = f"blk.{layer}."
    m.norm(block + "attn_norm.weight", r.dim)
    if r.metadata["attention.head_count_kv"][layer]:
        _attention_matrices(m, r, block)
    elif not r.metadata["feed_forward_length"][layer]:
        _mamba2(m, r, block)
    elif r.experts:
        m.matrix(block + "ffn_up_exps.weight", r.experts, r.feed_forward, r.dim)
        m.matrix(block + "ffn_down_exps.weight", r.experts, r.dim, r.feed_forward)
        m.matrix(block + "ffn_gate_inp.weight", r.experts, r.dim)
        m.small(block + "exp_probs_b.bias", r.experts)
        _shared_expert(m, r, block, gated=False)
    else:
        m.matrix(block + "ffn_up.weight", r.feed_forward, r.dim)
        m.matrix(block + "ffn_down.weight", r.dim, r.feed_forward)


def _mamba2(m: Maker, r: Any, block: str) -> None:
    inner, heads = r.metadata["ssm.inner_size"], r.metadata["ssm.time_step_rank"]
    groups = r.metadata["ssm.group_count"]
    channels = inner + 2 * groups * r.metadata["ssm.state_size"]
    m.matrix(block + "ssm_in.weight", inner + channels + heads, r.dim)
    m.matrix(block + "ssm_conv1d.weight", channels, r.metadata["ssm.conv_kernel"])
    m.small(block + "ssm_conv1d.bias", channels)
    m.small(block + "ssm_dt.bias", heads)
    m.add(block + "ssm_a", -m.rng.uniform(0.1, 2, (heads, 1)))
    m.near_one(block + "ssm_d", heads, 1)
    m.near_one(block + "ssm_norm.weight", groups, inner // groups)
    m.matrix(block + "ssm_out.weight", r.dim, inner)
