"""The architectures of GGUF files that can be loaded."""

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import ModelError
from engine.loading import dense, hybrid, windowed
from engine.loading.architecture import Architecture, base_config
from engine.loading.hparams import Hparams

_BUILDERS: dict[str, Callable[[Hparams, Mapping[str, Any], dict[str, Any]], Architecture]] = {
    "cohere2": windowed.cohere2,
    "ernie4_5": dense.ernie4_5,
    "falcon-h1": hybrid.falcon_h1,
    "gemma": windowed.gemma,
    "gemma2": windowed.gemma2,
    "gemma3": windowed.gemma3,
    "glm4": dense.glm4,
    "gpt-oss": windowed.gpt_oss,
    "granite": dense.granite,
    "granitehybrid": hybrid.granitehybrid,
    "lfm2": hybrid.lfm2,
    "lfm2moe": hybrid.lfm2moe,
    "llama": dense.llama,
    "mistral3": dense.mistral3,
    "nemotron_h": hybrid.nemotron_h,
    "nemotron_h_moe": hybrid.nemotron_h,
    "olmo2": dense.olmo2,
    "phi3": dense.phi3,
    "qwen2": dense.qwen2,
    "qwen2vl": dense.qwen2vl,
    "qwen3": dense.qwen3,
    "qwen35": hybrid.qwen35,
    "qwen35moe": hybrid.qwen35moe,
    "qwen3moe": dense.qwen3moe,
    "qwen3next": hybrid.qwen3next,
    "qwen3vl": dense.qwen3vl,
    "qwen3vlmoe": dense.qwen3vlmoe,
    "seed_oss": dense.seed_oss,
    "smollm3": dense.smollm3,
    "starcoder2": dense.starcoder2,
}
SUPPORTED = tuple(_BUILDERS)


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
    return build(h, tensors, base_config(h, tensors, n_vocab))
