"""What loading a model gives, and what its caller may choose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlx.nn.layers.base import Module

# "float32" makes every weight float32. "native" keeps quantised and half-float weights as the file
# has them, wherever MLX can hold them exactly, and computes in float32. "half" is native with
# scales, norms and so all computing in 16 bits: less exact, and what MLX is fast with on a GPU.
# "panels" is native on a Linux CPU: the matrices are kept as they are for engine/panels, which
# multiplies with them exactly as with float32 ones, and the rest is float32.
Weights = Literal["float32", "panels", "native", "half"]
# Called with the part of the weights that is loaded, rising from 0 to 1.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to run, and what llama-server says about it.

    `model` is an mlx-lm model: `model(tokens[B, T], cache=caches)` gives logits [B, T, V]. Llama
    models keep GGUF's order of q and k rows and rotate pairs side by side, so GGUF's LoRA
    adapters fit as they are. `metadata` is the GGUF file's, `{}` for a directory; `config` what
    mlx-lm's model was built from. `n_params` and `size_bytes` count what the files hold, not what
    is in memory.
    """

    model: Module
    metadata: Mapping[str, Any]
    config: Mapping[str, Any]
    path: Path
    name: str
    architecture: str
    description: str
    ftype: str
    weights: Weights
    vocab_type: int
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_params: int
    size_bytes: int
    chat_template: str | None
