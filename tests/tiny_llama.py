"""A tiny Llama with fixed random weights and a byte vocabulary, made in memory for engine tests."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models import llama
from mlx_lm.models.cache import make_prompt_cache

import engine  # noqa: F401  (prepares MLX)
from engine.sampling import SamplingParams
from engine.settings import EngineSettings
from engine.speculation import NgramSizes, SpeculationSettings
from engine.task import CompletionTask

BOS, EOS, OTHER_SPECIAL = 256, 257, 258
N_VOCAB = 259
PIECES = {BOS: b"<bos>", EOS: b"<eos>", OTHER_SPECIAL: b"<tool>"}


class ByteVocabulary:
    """Token n is byte n; the three above are special."""

    n_tokens = N_VOCAB
    add_bos = False
    suppress = ()
    eos = EOS
    eot = None

    def piece(self, token: int, *, special: bool) -> bytes:
        """A byte; of a special token its name if `special`, else nothing."""
        return bytes([token]) if token < 256 else PIECES[token] if special else b""

    def is_eog(self, token: int) -> bool:
        """Only EOS ends a text."""
        return token == EOS

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """One token a byte."""
        return ([BOS] if add_special else []) + list(text.encode())


@dataclass
class TinyModel:
    """What the engine is given to serve."""

    model: Any
    n_ctx_train: int = 1024
    tokenizer: ByteVocabulary = field(default_factory=ByteVocabulary)

    @property
    def description(self) -> "TinyModel":
        """What is known of it."""
        return self


def load(on_progress: Any = None, window: int | None = None, hidden_size: int = 64) -> TinyModel:
    """The model, the same every time; it prefers printable ASCII and never ends by itself.

    With `window` its second layer sees only so many tokens; heads are a quarter of `hidden_size`.
    """
    layer_types = ["full_attention", "sliding_attention"] if window else None
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=hidden_size,
        num_hidden_layers=2,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=N_VOCAB,
        tie_word_embeddings=False,
        layer_types=layer_types,
        sliding_window=window,
    )
    model = llama.Model(arguments)
    rng = np.random.default_rng(11)
    weights = []
    for name, value in tree_flatten(model.parameters()):
        if "norm" in name:
            array = np.ones(value.shape, np.float32)
        else:
            array = (rng.standard_normal(value.shape) / np.sqrt(value.shape[-1])).astype(np.float32)
        if name == "model.embed_tokens.weight":
            array *= 8
            array[:, 0] = 10
        if name == "lm_head.weight":
            array *= 8
            array[:, 0] = 0
            array[[i for i in range(N_VOCAB) if not 32 <= i < 127 and i != 10], 0] = -50
        weights.append((name, mx.array(array)))
    model.update(tree_unflatten(weights))
    mx.eval(model.parameters())
    return TinyModel(model)


@cache
def model_here() -> TinyModel:
    """The model for the test's own thread."""
    return load()


def greedy(prompt: list[int], n: int) -> list[int]:
    """What plain mlx-lm continues `prompt` with, one token at a time."""
    model = model_here().model
    layers = make_prompt_cache(model)
    logits, out = model(mx.array([prompt]), cache=layers)[0, -1], []
    for _ in range(n):
        out.append(int(mx.argmax(logits)))
        logits = model(mx.array([out[-1:]]), cache=layers)[0, -1]
    return out


def settings(**changes: Any) -> EngineSettings:
    """Two slots over one context of 512 tokens."""
    values: dict[str, Any] = {
        "n_ctx": 512,
        "n_parallel": 2,
        "kv_unified": True,
        "n_batch": 64,
        "n_ubatch": 16,
        "n_predict": -1,
        "slot_prompt_similarity": 0.1,
        "special": False,
        "ctx_shift": False,
        "cache_ram_mib": 0,
        "cache_idle_slots": True,
        "n_ctx_checkpoints": 32,
        "checkpoint_min_step": 8192,
        "cache_type_k": "",
        "cache_type_v": "",
        "speculation": speculation(),
    }
    return EngineSettings(**values | changes)


def speculation(*kinds: str, **changes: Any) -> SpeculationSettings:
    """The kinds given, with the command line's defaults."""
    sizes = NgramSizes(size_n=12, size_m=48, min_hits=1)
    values: dict[str, Any] = {
        "draft_n_max": 3,
        "draft_n_min": 0,
        "draft_p_min": 0.0,
        "mod_n_match": 24,
        "mod_n_max": 64,
        "mod_n_min": 48,
        "simple": sizes,
        "map_k": sizes,
        "map_k4v": sizes,
        "lookup_static": "",
        "lookup_dynamic": "",
    }
    return SpeculationSettings(kinds=frozenset(kinds), **values | changes)


def sampling(**changes: Any) -> SamplingParams:
    """Greedy, nothing else."""
    values: dict[str, Any] = {
        "seed": 1,
        "temperature": 0.0,
        "dynatemp_range": 0.0,
        "dynatemp_exponent": 1.0,
        "top_k": 40,
        "top_p": 1.0,
        "min_p": 0.0,
        "top_n_sigma": -1.0,
        "xtc_probability": 0.0,
        "xtc_threshold": 0.1,
        "typical_p": 1.0,
        "repeat_last_n": 64,
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "dry_multiplier": 0.0,
        "dry_base": 1.75,
        "dry_allowed_length": 2,
        "dry_penalty_last_n": -1,
        "dry_sequence_breakers": (),
        "mirostat": 0,
        "mirostat_tau": 5.0,
        "mirostat_eta": 0.1,
        "adaptive_target": -1.0,
        "adaptive_decay": 0.9,
        "logit_bias": (),
        "ignore_eos": False,
        "n_probs": 0,
        "min_keep": 0,
        "grammar": None,
        "grammar_lazy": False,
        "samplers": ("temperature",),
        "post_sampling_probs": False,
        "backend_sampling": False,
    }
    return SamplingParams(**values | changes)


def task(prompt: str | list[int] = "the quick", **changes: Any) -> CompletionTask:
    """Eight greedy tokens, streamed."""
    values: dict[str, Any] = {
        "prompt": list(prompt.encode()) if isinstance(prompt, str) else prompt,
        "sampling": sampling(),
        "n_predict": 8,
        "n_keep": 0,
        "n_discard": 0,
        "n_indent": 0,
        "n_cache_reuse": 0,
        "cache_prompt": True,
        "id_slot": -1,
        "stop": (),
        "t_max_predict_ms": -1,
        "stream": True,
        "return_tokens": True,
        "return_progress": False,
        "timings_per_token": False,
        "preserved_tokens": frozenset(),
    }
    return CompletionTask(**values | changes)
