"""Opens a model: its weights and description, and the tokenizer that belongs to it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.loading import LoadedModel, load_model
from engine.loading.sharing import Share
from engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class OpenModel:
    """A model that is ready to serve."""

    description: LoadedModel
    tokenizer: Tokenizer

    @property
    def model(self) -> Any:
        """mlx-lm's model: called with int32 [B, T] and caches, it gives logits [B, T, V]."""
        return self.description.model

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context that the model was trained for."""
        return self.description.n_ctx_train


def open_model(
    path: Path,
    progress: Callable[[float], None] | None,
    *,
    n_ctx: int | None = None,
    share: Share | None = None,
) -> OpenModel:
    """Load a GGUF file or an MLX folder; raises ModelError with one plain line.

    `n_ctx` is how many tokens one sequence may have, where that is known: some models choose
    their rotary frequencies by it. With `share` only this process's part is loaded.
    """
    description = load_model(path, progress=progress, n_ctx=n_ctx, share=share)
    try:
        if description.metadata:
            tokenizer = Tokenizer.from_gguf(description.metadata)
        else:
            tokenizer = Tokenizer.from_hf(path)
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from None
    return OpenModel(description, tokenizer)
