"""Writes a GGUF model as a folder for mlx-lm: the same weights, tokenizer and template."""

import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from engine.open_model import open_model

_SMOLLM = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CONTROL = 3


def write_folder(gguf: Path, folder: Path) -> None:
    """Write `gguf`, a BPE model, to `folder`; does nothing if it is there already."""
    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    opened = open_model(gguf, None)
    weights = dict(tree_flatten(opened.model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    _write_tokenizer(dict(opened.description.metadata), folder)
    # The weights keep GGUF's order of rows, which rotates pairs side by side.
    config = {**opened.description.config, "rope_traditional": True}
    config["eos_token_id"] = opened.tokenizer.eos
    (folder / "config.json").write_text(json.dumps(config))


def _write_tokenizer(metadata: dict[str, object], folder: Path) -> None:
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
    eos = tokens[int(metadata["tokenizer.ggml.eos_token_id"])]  # type: ignore[call-overload]
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": eos,
                "chat_template": metadata.get("tokenizer.chat_template"),
            }
        )
    )
