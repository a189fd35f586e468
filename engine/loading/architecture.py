"""What a GGUF architecture is in mlx-lm: its model, and where each of its parameters is stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.hparams import Hparams

LAYER = "model.layers.{i}."
BLOCK = "blk.{i}."

# mlx-lm's module paths to GGUF's tensor names, without `.weight` and `.bias`.
COMMON = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    LAYER + "input_layernorm": BLOCK + "attn_norm",
    LAYER + "self_attn.q_proj": BLOCK + "attn_q",
    LAYER + "self_attn.k_proj": BLOCK + "attn_k",
    LAYER + "self_attn.v_proj": BLOCK + "attn_v",
    LAYER + "self_attn.q_norm": BLOCK + "attn_q_norm",
    LAYER + "self_attn.k_norm": BLOCK + "attn_k_norm",
    LAYER + "self_attn.o_proj": BLOCK + "attn_output",
    LAYER + "post_attention_layernorm": BLOCK + "ffn_norm",
    LAYER + "mlp.gate_proj": BLOCK + "ffn_gate",
    LAYER + "mlp.up_proj": BLOCK + "ffn_up",
    LAYER + "mlp.down_proj": BLOCK + "ffn_down",
}

Names = Mapping[str, str | tuple[str, ...]]
"""Of modules in mlx-lm's model, and of tensors in a file."""
Change = Callable[[mx.array], mx.array]
"""Turns what a file holds into what mlx-lm's model wants, of the same number of values."""


@dataclass(frozen=True)
class Architecture:
    """How to build one model.

    `module` is one of `mlx_lm.models`; `names` maps its module paths to GGUF's tensor names, with
    `{i}` for the layer; a path of a parameter that has no suffix of its own maps to a tensor's
    whole name, and one that GGUF has in several parts to a tuple of names. `changes` says, by the
    parameter's path, what is done with values once they are read, quantised ones included.
    `traditional` is the rotary layout of pairs side by side, in which GGUF stores Llama's q and k:
    with it the weights need no reordering. `sliding_period` is how many layers there are to each
    one that sees the whole context, 0 if all do; `sliding_base` the base of their rotation where
    that isn't the other layers' own, and `most_context` the longest context that is computed
    rightly, None for any. Tensors of layers from `n_layers` on, which only draft, are left alone.
    `keeps_places` says that llama-server never moves such a model's keys to other places;
    `still_pairs` are those of a head that no position turns.
    """

    module: str
    config: dict[str, Any]
    names: Names = field(default_factory=lambda: COMMON)
    changes: Mapping[str, Change] = field(default_factory=dict)
    traditional: bool = False
    norms_hold_one_plus: bool = False
    zero_biases: bool = False
    sliding_period: int = 0
    sliding_base: float | None = None
    most_context: int | None = None
    n_layers: int | None = None
    keeps_places: bool = False
    still_pairs: tuple[int, ...] = ()

    def is_sliding(self, layer: int) -> bool:
        """Whether a layer sees only a window of the context."""
        return self.sliding_period > 1 and (layer + 1) % self.sliding_period != 0

    def tensor_names(self, path: str) -> tuple[str, ...]:
        """A parameter's name in GGUF, for example `blk.3.attn_q.bias`, or those of its parts."""
        path = path.replace("embed_tokens.inner", "embed_tokens")
        pattern, layer = _pattern(path)
        stem, _, suffix = pattern.rpartition(".")
        name = self.names.get(pattern)
        end = "" if name else f".{suffix}"
        name = name or self.names[stem]
        parts = (name,) if isinstance(name, str) else name
        return tuple(part.replace("{i}", layer) + end for part in parts)

    def changed(self, path: str, values: mx.array) -> mx.array:
        """A parameter's values as the model wants them; `path` may be of scales and biases."""
        change = self.changes.get(_pattern(path)[0])
        return values if change is None else change(values)

    def changes_value(self, path: str) -> bool:
        """Whether a parameter isn't what the file holds."""
        return _pattern(path)[0] in self.changes


def _pattern(path: str) -> tuple[str, str]:
    """A path with `{i}` for the layer's number, and that number."""
    layer = next((part for part in path.split(".") if part.isdigit()), "")
    return (path.replace(f".{layer}.", ".{i}.", 1) if layer else path), layer


def base_config(h: Hparams, tensors: Mapping[str, Any], n_vocab: int) -> dict[str, Any]:
    """What the configurations of nearly all of mlx-lm's models have in common."""
    return {
        "model_type": h.architecture,
        "vocab_size": n_vocab,
        "hidden_size": h.n_embd,
        "num_hidden_layers": h.n_layer,
        "num_attention_heads": h.n_head,
        "num_key_value_heads": h.n_head_kv,
        "head_dim": h.head_dim,
        "rope_theta": h.number("rope.freq_base", 10000.0),
        "max_position_embeddings": h.n_ctx_train,
        "tie_word_embeddings": "output.weight" not in tensors,
    }


def experts(module: str) -> dict[str, str]:
    """The names of a layer's experts and their router, which are below `module`."""
    return {
        LAYER + module + ".gate": BLOCK + "ffn_gate_inp",
        **switch(module + ".switch_mlp"),
    }


def switch(module: str) -> dict[str, str]:
    """The names of a layer's experts, which are `module`."""
    return {
        LAYER + module + ".gate_proj": BLOCK + "ffn_gate_exps",
        LAYER + module + ".up_proj": BLOCK + "ffn_up_exps",
        LAYER + module + ".down_proj": BLOCK + "ffn_down_exps",
    }


def feed_forward(h: Hparams, config: dict[str, Any]) -> None:
    config["intermediate_size"] = h.integer("feed_forward_length")


def rms_eps(h: Hparams) -> float:
    return h.number("attention.layer_norm_rms_epsilon")


def whole_heads(h: Hparams) -> None:
    """Refuse heads that don't add up to the embedding, where mlx-lm's model takes that for sure."""
    if h.head_dim * h.n_head != h.n_embd:
        raise h.bad("attention.key_length", f"is {h.head_dim}: {h.n_head} don't make {h.n_embd}")


def whole_rotation(h: Hparams) -> None:
    """Refuse heads that are turned in part, as llama.cpp does for these architectures."""
    if h.n_rot != h.head_dim:
        raise h.bad("rope.dimension_count", f"is {h.n_rot}, not {h.head_dim}")


def tied_only(h: Hparams, tensors: Mapping[str, Any]) -> None:
    """Refuse an output layer of its own, where mlx-lm's model knows none."""
    if "output.weight" in tensors:
        raise ModelError(
            f"{h.path} holds tensor 'output.weight', which isn't supported "
            f"for models of architecture '{h.architecture}'"
        )


def untied_only(h: Hparams, tensors: Mapping[str, Any]) -> None:
    """Refuse a model without an output layer of its own, where mlx-lm's always has one."""
    if "output.weight" not in tensors:
        raise ModelError(f"{h.path} lacks tensor 'output.weight': download or convert it again")


def still_pairs(h: Hparams, *, interleaved: bool) -> tuple[int, ...]:
    """The pairs of a head that aren't turned, where they turn by several kinds of position.

    A text's positions are the same in time, height and width; pairs that llama.cpp gives to none
    of these it gives to a kind that a text hasn't, and they stay as they are.
    """
    sections = h.integers("rope.dimension_sections")
    total = sum(sections)
    if len(sections) < 3 or not total:
        raise h.bad("rope.dimension_sections", f"is {sections}, which makes no positions")
    places = [pair % total for pair in range(h.n_rot // 2)]
    if interleaved:
        # Pairs go round to time, height and width as long as each has some left.
        still = [place >= 3 * sections[place % 3] for place in places]
    else:
        still = [place >= sum(sections[:3]) for place in places]
    return tuple(pair for pair, is_still in enumerate(still) if is_still)
