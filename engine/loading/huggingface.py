"""Loads a directory with config.json and safetensors, as Hugging Face and MLX models come."""

import json
import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

from engine.errors import ModelError
from engine.light_mlx_lm import import_utils
from engine.loading.experts import widen_experts_on_cpu
from engine.loading.panels import panels_of, use_panels
from engine.loading.sharing import Share
from engine.loading.types import LoadedModel, Progress, Weights

_MOST_HEADER_BYTES = 100_000_000
_FILE_TYPES = {"F32": "all F32", "F16": "F16", "BF16": "BF16"}
_VOCAB_TYPES = {"BPE": 2, "WordPiece": 3, "Unigram": 4}
# Where matrices become panels, nearly all of the time goes there.
_PANELS_PART = 0.95
_UNBOUNDED_CONTEXT = 1 << 20


class _Stored(NamedTuple):
    """A tensor of a safetensors file: `n_values` counts a packed weight's values, not its words."""

    dtype: str
    n_values: int
    nbytes: int


def stored_values(path: Path) -> int:
    """How many values the weights of a directory hold; raises `ModelError` as loading does."""
    return sum(tensor.n_values for tensor in _stored(path, _config(path)))


def load_directory(
    path: Path, *, weights: Weights, progress: Progress, share: Share | None = None
) -> LoadedModel:
    """Load a model that mlx-lm knows, from its directory; see `load_model` for the rest.

    Code that comes with a model is never run, and nothing is downloaded.
    """
    config = _config(path)
    stored = list(_stored(path, config))
    model = _load(path)
    # Such models come in the precision they are to be computed with, so native is half.
    report = progress
    if weights == "panels":
        _to_panels(path, model, lambda part: progress(_PANELS_PART * part))

        def report(part: float) -> None:
            progress(_PANELS_PART + (1 - _PANELS_PART) * part)

    if weights in ("float32", "panels"):
        _to_float32(model)
    if share is not None:
        share.cut(model, str(path))
    widen_experts_on_cpu(model)
    _evaluate(path, model, report)
    text = config.get("text_config")
    described = config | text if isinstance(text, dict) else config
    kind = _file_type(config, stored)
    n_params = sum(tensor.n_values for tensor in stored)
    architecture = str(config["model_type"])
    n_head = _integer(described, "num_attention_heads", "n_head")
    return LoadedModel(
        model=model,
        metadata={},
        config=config,
        path=path,
        name=path.resolve().name,
        architecture=architecture,
        description=f"{architecture} {_size_name(n_params)} {kind}",
        ftype=kind,
        weights=weights,
        vocab_type=_vocab_type(path),
        n_vocab=_integer(described, "vocab_size"),
        n_ctx_train=_integer(described, "max_position_embeddings", "n_positions", "max_seq_len")
        or _UNBOUNDED_CONTEXT,
        n_embd=_integer(described, "hidden_size", "n_embd", "d_model"),
        n_layer=_integer(described, "num_hidden_layers", "n_layer", "n_layers"),
        n_head=n_head,
        n_head_kv=_integer(described, "num_key_value_heads") or n_head,
        n_params=n_params,
        size_bytes=sum(tensor.nbytes for tensor in stored),
        chat_template=_chat_template(path),
    )


def _config(path: Path) -> dict[str, Any]:
    config = _json(path / "config.json")
    if config is None:
        raise ModelError(
            f"{path} holds no config.json: give a .gguf file or a directory of a whole model"
        )
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{path / 'config.json'} doesn't say its model_type: download it again")
    return config


def _json(path: Path) -> dict[str, Any] | None:
    """A file's JSON object, None if there is no such file."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} can't be read: {error}; download it again") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} isn't a JSON object: download it again")
    return value


def _stored(path: Path, config: Mapping[str, Any]) -> Iterator[_Stored]:
    """Every tensor of the directory's weight files, of which none may be missing or cut short."""
    files = sorted(path.glob("model*.safetensors"))
    index = _json(path / "model.safetensors.index.json") or {}
    listed = index.get("weight_map", {})
    wanted = set(listed.values()) if isinstance(listed, dict) else set()
    missing = sorted(str(name) for name in wanted - {file.name for file in files})
    if missing:
        raise ModelError(f"{path} lacks {missing[0]}: download the model again")
    if not files:
        raise ModelError(f"{path} holds no model*.safetensors: download or convert the model")
    quantization = config.get("quantization")
    group_size = quantization.get("group_size", 64) if isinstance(quantization, dict) else 64
    for file in files:
        header = _header(file)
        for name, (dtype, shape, nbytes) in header.items():
            stem, _, suffix = name.rpartition(".")
            scales = header.get(f"{stem}.scales")
            n_values = math.prod(shape)
            if scales and suffix in ("scales", "biases"):
                n_values = 0
            elif scales and suffix == "weight":
                n_values = math.prod(scales[1]) * group_size
            yield _Stored(dtype, n_values, nbytes)


def _header(file: Path) -> dict[str, tuple[str, list[int], int]]:
    """A safetensors file's tensors: dtype, shape and bytes of each."""
    tensors = {}
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(size - 8, _MOST_HEADER_BYTES):
                raise ValueError("its header is cut off")
            header = json.loads(stream.read(length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            if not 0 <= start <= end <= size - 8 - length:
                raise ValueError(f"the data of tensor '{name}' is cut off")
            tensors[name] = (str(entry["dtype"]), [int(n) for n in entry["shape"]], end - start)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(
            f"{file} isn't a whole safetensors file ({reason}): download it again"
        ) from None
    return tensors


def _load(path: Path) -> Module:
    try:
        utils = import_utils()
        model, _ = utils.load_model(path, lazy=True)
    # What a config can do to the models' code is beyond listing; none of it may reach a user raw.
    except Exception as error:
        raise _unusable(path, error) from None
    loaded: Module = model
    return loaded


def _unusable(path: Path, error: Exception) -> ModelError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    shown = reason if len(reason) <= 300 else reason[:297] + "..."
    return ModelError(f"{path} can't be loaded by mlx-lm: {shown}")


def _to_float32(model: Module) -> None:
    # Scales first, so that nothing is rounded between them and the values.
    model.set_dtype(mx.float32)
    import_utils().dequantize_model(model)
    model.set_dtype(mx.float32)


def _to_panels(path: Path, model: Any, progress: Progress) -> None:
    """Read the matrices, one after the other, so that no more than one is there twice."""
    modules = list(model.named_modules())
    for number, (name, module) in enumerate(modules):
        progress(number / len(modules))
        try:
            matrix = panels_of(module)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise _unusable(path, error) from None
        if matrix is not None:
            use_panels(model, {name: matrix})


def _evaluate(path: Path, model: Any, progress: Progress) -> None:
    """Read and convert what so far is only planned, one parameter after the other."""
    parameters: Any = tree_flatten(model.parameters())
    total = sum(array.nbytes for _, array in parameters)
    done = 0
    for _, array in parameters:
        try:
            mx.eval(array)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise _unusable(path, error) from None
        done += array.nbytes
        progress(done / max(1, total))
    model.eval()


def _integer(config: Mapping[str, Any], *names: str) -> int:
    """The first of these keys that holds an integer, 0 if none does."""
    return next((config[name] for name in names if isinstance(config.get(name), int)), 0)


def _file_type(config: Mapping[str, Any], stored: list[_Stored]) -> str:
    quantization = config.get("quantization")
    if isinstance(quantization, dict) and isinstance(quantization.get("bits"), int):
        return f"MLX {quantization['bits']}-bit"
    counts: Counter[str] = Counter()
    for tensor in stored:
        counts[tensor.dtype] += tensor.n_values
    commonest = counts.most_common(1)[0][0] if counts else "F32"
    return _FILE_TYPES.get(commonest, commonest)


def _size_name(n_params: int) -> str:
    if n_params >= 1_000_000_000:
        return f"{n_params / 1e9:.2g}B"
    return f"{round(n_params / 1e6)}M"


def _vocab_type(path: Path) -> int:
    """llama.cpp's number for the kind of tokenizer: BPE with byte tokens is what it calls SPM."""
    tokenizer = _json(path / "tokenizer.json") or {}
    model = tokenizer.get("model")
    if not isinstance(model, dict):
        return 0
    return 1 if model.get("byte_fallback") is True else _VOCAB_TYPES.get(str(model.get("type")), 0)


def _chat_template(path: Path) -> str | None:
    try:
        return (path / "chat_template.jinja").read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ModelError(f"{path / 'chat_template.jinja'} can't be read: {error}") from None
    for name in ("chat_template.json", "tokenizer_config.json"):
        template = (_json(path / name) or {}).get("chat_template")
        if isinstance(template, list):
            named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
            template = named.get("default")
        if isinstance(template, str):
            return template
    return None
