"""Writes a GGUF model as a folder for mlx-lm: the same weights, tokenizer and template."""

import json
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from engine.open_model import open_model
from engine.tokenizer import Tokenizer as VocabTokenizer

_SMOLLM = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CONTROL = 3


def write_folder(gguf: Path, folder: Path, *, endless: bool = False) -> None:
    """Write `gguf`, a BPE model, to `folder`; does nothing if it is there already.

    Of an `endless` one the end is a token that it never says: its texts go on to their limit.
    """
    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    opened = open_model(gguf, None)
    weights = _weights(opened.model)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    metadata = dict(opened.description.metadata)
    end = _never_said(opened.tokenizer, metadata) if endless else opened.tokenizer.eos
    _write_tokenizer(metadata, folder, end)
    # The weights keep GGUF's order of rows, which rotates pairs side by side.
    config = {**opened.description.config, "rope_traditional": True, "eos_token_id": end}
    (folder / "config.json").write_text(json.dumps(config))


def _weights(model: nn.Module) -> dict[str, mx.array]:
    """All weights as plain numbers, those too that layers hold in a form of their own."""
    weights = dict(tree_flatten(model.parameters()))
    for name, module in model.named_modules():
        values = getattr(module, "weight", None)
        if values is not None and "weight" not in module:
            weights[f"{name}.weight"] = values
    return weights


def _never_said(tokenizer: VocabTokenizer, metadata: dict[str, object]) -> int:
    """A control token that ends nothing."""
    types: list[int] = metadata["tokenizer.ggml.token_type"]  # type: ignore[assignment]
    control = (token for token, kind in enumerate(types) if kind == _CONTROL)
    return next(token for token in control if token not in {*tokenizer.eog, tokenizer.bos})


def _write_tokenizer(metadata: dict[str, object], folder: Path, end: int | None) -> None:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]  # type: ignore[assignment]
    merges: list[str] = metadata["tokenizer.ggml.merges"]  # type: ignore[assignment]
    types: list[int] = metadata["tokenizer.ggml.token_type"]  # type: ignore[assignment]
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SMOLLM), "isolated"),
            pre_tokenizers.Split(Regex(_GPT2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    special = [AddedToken(text, special=True) for text in control]
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": None if end is None else tokens[end],
                "chat_template": metadata.get("tokenizer.chat_template"),
            }
        )
    )
