"""Builds an mlx-lm model from a GGUF file."""

import importlib
import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from os import cpu_count
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from engine.errors import ModelError
from engine.gguf.affine import AffineForm
from engine.gguf.file import GGUFFile, TensorInfo
from engine.gguf.values import fill_float32, has_values, mlx_form, pack, pack_mxfp4
from engine.light_mlx_lm import import_models_only
from engine.loading.architecture import Architecture
from engine.loading.architectures import architecture_of
from engine.loading.describe import file_type, size_name, vocab_type
from engine.loading.experts import widen_experts_on_cpu
from engine.loading.hparams import Hparams
from engine.loading.panels import panel_form, read_panels, use_panels
from engine.loading.rope import Rope, RopeOptions, as_scaling, yarn_attn_factor
from engine.loading.sharing import LayerCutter, Share
from engine.loading.types import LoadedModel, Progress, Weights
from engine.panels.form import Form
from engine.panels.matrix import PanelMatrix

_ROPE_TENSORS = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}
_MOST_THREADS = 8
_MXFP4 = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
# Modules of mlx-lm that compute in bfloat16 if in 16 bits, and parameters that stay float32.
_WIDE = (
    "gemma", "gpt_oss", "lfm2", "qwen3_5", "qwen3_next", "granitemoehybrid", "falcon_h1",
    "nemotron_h",
)  # fmt: skip
_EXACT = ("A_log", "e_score_correction_bias", "expert_bias")
# Divides a frequency so that no position turns a pair by anything.
_NEVER = 1e30
# Pieces of rows that are moved are multiples of this.
_GROUP_THAT_MOVES = 32


class _Rows(NamedTuple):
    """The rows `start` to `stop` of a tensor, or all of it."""

    tensor: TensorInfo
    start: int = 0
    stop: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        rows, *rest = self.tensor.shape
        return (len(range(rows)[self.start : self.stop]), *rest)

    def raw(self, file: GGUFFile) -> npt.NDArray[np.uint8]:
        raw = file.raw(self.tensor.name)
        if self.start == 0 and self.stop is None:
            return raw
        return raw.reshape(self.tensor.shape[0], -1)[self.start : self.stop].reshape(-1)


# Where a parameter's values come from: rows of one tensor, or of several, one after the other.
_Source = tuple[_Rows, ...]


def load_gguf(
    file: GGUFFile,
    *,
    weights: Weights,
    progress: Progress,
    n_ctx: int | None,
    rope: RopeOptions,
    share: Share | None = None,
) -> LoadedModel:
    """Load a model from a GGUF file that has been read; see `load_model` for the rest.

    Raises `ModelError` if the file doesn't hold a whole model of a supported architecture.
    """
    h = Hparams(file.path, file.metadata)
    n_vocab = _vocabulary_size(h)
    architecture = architecture_of(h, file.tensors, n_vocab)
    context = n_ctx or h.n_ctx_train
    if architecture.most_context and context > architecture.most_context:
        raise ModelError(
            f"{file.path}: {h.architecture} models run with a context of at most "
            f"{architecture.most_context} tokens, not {context}: give a smaller --ctx-size"
        )
    model: Any = _build(h, architecture)
    model.keeps_places = architecture.keeps_places
    _set_ropes(model, h, architecture, _rope(file, h, architecture, context, rope))
    sources = _sources(file, model, architecture)
    if weights in ("native", "half"):
        _quantize(model, architecture, sources)
    forms = _panel_forms(model, architecture, sources) if weights == "panels" else {}
    cutter = LayerCutter(share, model, sources, str(file.path)) if share else None
    matrices = _fill(model, file, architecture, sources, weights, forms, progress, cutter)
    use_panels(model, matrices)
    if weights == "half":
        _halve(model, file, architecture)
    widen_experts_on_cpu(model)
    mx.eval(model.parameters())
    template = file.metadata.get("tokenizer.chat_template")
    kind = file_type(file.metadata, (t.type.name for t in file.tensors.values()))
    name = file.metadata.get("general.name")
    return LoadedModel(
        model=model,
        metadata=file.metadata,
        config=architecture.config,
        path=file.path,
        name=name if isinstance(name, str) else "",
        architecture=h.architecture,
        description=f"{h.architecture} {size_name(h, n_vocab)} {kind}",
        ftype=kind,
        weights=weights,
        vocab_type=vocab_type(file.metadata),
        n_vocab=n_vocab,
        n_ctx_train=h.n_ctx_train,
        n_embd=h.n_embd,
        n_layer=h.n_layer,
        n_head=h.n_head,
        n_head_kv=h.n_head_kv,
        n_params=sum(tensor.size for tensor in file.tensors.values()),
        size_bytes=sum(tensor.nbytes for tensor in file.tensors.values()),
        chat_template=template if isinstance(template, str) else None,
    )


def _vocabulary_size(h: Hparams) -> int:
    tokens = h.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and tokens:
        return len(tokens)
    raise ModelError(f"{h.path} holds no vocabulary: convert the model again")


def _build(h: Hparams, architecture: Architecture) -> Module:
    """The model with mlx-lm's initial values, none of them computed yet."""
    import_models_only()
    module = importlib.import_module(f"mlx_lm.models.{architecture.module}")
    try:
        model: Module = module.Model(module.ModelArgs.from_dict(architecture.config))
        if architecture.config["tie_word_embeddings"] and "lm_head" in model:
            # Tied models drop their output layer where mlx-lm sees that none is loaded.
            model.sanitize({})
    except (ValueError, TypeError, OverflowError, MemoryError, IndexError) as error:
        raise ModelError(
            f"{h.path}: no {h.architecture} model can be built from its metadata: {error}"
        ) from None
    if architecture.module.startswith("gemma"):
        _as_llama_cpp_has_gemma(model, architecture)
    return model


def _as_llama_cpp_has_gemma(model: Any, architecture: Architecture) -> None:
    """Two details in which mlx-lm's Gemma models depart from llama.cpp's."""
    from mlx_lm.models.gemma3_text import MLP

    mlp: Any = MLP
    width = architecture.config["hidden_size"]
    if architecture.module == "gemma":
        for layer in model.layers:
            layer.mlp = mlp(width, architecture.config["intermediate_size"])
    if architecture.module == "gemma3_text":
        rounded = mx.array(width**0.5, mx.bfloat16).item()
        if rounded != width**0.5:
            model.model.embed_tokens = _RescaledEmbedding(model, width**0.5 / rounded)


class _RescaledEmbedding(Module):
    """An embedding whose vectors, but not whose output weights, are multiplied by a constant.

    mlx-lm's Gemma 3 multiplies embeddings with the root of their length rounded to bfloat16.
    """

    def __init__(self, model: Any, factor: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.factor = factor
        self.inner = model.model.embed_tokens

    def __call__(self, tokens: mx.array) -> mx.array:
        vectors: mx.array = self.inner(tokens) * self.factor
        return vectors

    def as_linear(self, x: mx.array) -> mx.array:
        logits: mx.array = self.inner.as_linear(x)
        return logits


def _rope(
    file: GGUFFile, h: Hparams, architecture: Architecture, n_ctx: int, options: RopeOptions
) -> Rope:
    """The rotation of the layers that see the whole context."""
    scaling = options.scaling or as_scaling(h.value("rope.scaling.type") or "linear")
    if scaling is None:
        raise h.bad("rope.scaling.type", f"is {h.value('rope.scaling.type')!r}")
    base = options.freq_base or h.number("rope.freq_base", 10000.0)
    factor = h.number("rope.scaling.factor", h.number("rope.scale_linear", 0.0))
    scale = options.freq_scale or (1 / factor if factor else 1.0)
    if scaling == "none":
        scale = 1.0
    if base <= 1 or scale <= 0:
        raise h.bad("rope.freq_base", f"is {base} and its scaling factor {1 / scale}")
    orig_ctx = options.orig_ctx or h.integer("rope.scaling.original_context_length", h.n_ctx_train)

    def yarn(option: float | None, key: str, default: float) -> float:
        return option if option is not None and option >= 0 else h.number(key, default)

    ext = yarn(options.ext_factor, "rope.scaling.yarn_ext_factor", -1)
    ext = (1.0 if scaling == "yarn" else 0.0) if ext < 0 else ext
    attn = yarn(options.attn_factor, "rope.scaling.yarn_attn_factor", 1)
    if ext:
        attn = yarn_attn_factor(scale, h.number("rope.scaling.yarn_log_multiplier", 0.0))
    return Rope(
        dims=h.n_rot,
        traditional=architecture.traditional,
        freq_base=base,
        freq_scale=scale,
        factors=_stilled(_rope_factors(file, h, n_ctx > orig_ctx), h, architecture),
        attn_factor=attn * h.number("rope.scaling.attn_factor", 1.0),
        ext_factor=ext,
        beta_fast=yarn(options.beta_fast, "rope.scaling.yarn_beta_fast", 32),
        beta_slow=yarn(options.beta_slow, "rope.scaling.yarn_beta_slow", 1),
        orig_ctx=orig_ctx,
    )


def _rope_factors(file: GGUFFile, h: Hparams, is_long: bool) -> npt.NDArray[np.float32] | None:
    """Divisors of the frequencies, of which some models have two sets, by length of context."""
    tensor = file.tensors.get("rope_freqs.weight") or file.tensors.get(
        "rope_factors_long.weight" if is_long else "rope_factors_short.weight"
    )
    if tensor is None:
        return None
    if tensor.shape != (h.n_rot // 2,) or not has_values(tensor.type):
        raise ModelError(
            f"{file.path}: tensor '{tensor.name}' isn't [{h.n_rot // 2}] numbers; "
            "convert the model again"
        )
    factors = np.empty(tensor.shape, np.float32)
    fill_float32(file.raw(tensor.name), tensor.type, factors)
    if not ((factors > 1e-6) & (factors < 1e6)).all():
        raise ModelError(f"{file.path}: tensor '{tensor.name}' is damaged; convert the model again")
    return factors


def _stilled(
    factors: npt.NDArray[np.float32] | None, h: Hparams, architecture: Architecture
) -> npt.NDArray[np.float32] | None:
    """Divisors of the frequencies that leave some pairs all but without one."""
    if not architecture.still_pairs:
        return factors
    made = np.ones(h.n_rot // 2, np.float32) if factors is None else factors
    made[list(architecture.still_pairs)] = _NEVER
    return made


def _set_ropes(model: Any, h: Hparams, architecture: Architecture, rope: Rope) -> None:
    whole = rope.module()
    sliding = whole
    default = architecture.sliding_base or rope.freq_base
    base = h.number("rope.freq_base_swa", default)
    if base <= 1:
        raise h.bad("rope.freq_base_swa", f"is {base}")
    if architecture.sliding_base is not None:
        sliding = replace(rope, freq_base=base, freq_scale=1.0).module()
    elif base != rope.freq_base:
        sliding = replace(rope, freq_base=base).module()
    for index, layer in enumerate(model.layers):
        attention = layer.get("self_attn")
        # Some layers have no attention, and some attention knows no positions.
        if attention is not None and hasattr(attention.get("rope"), "dims"):
            attention.rope = sliding if architecture.is_sliding(index) else whole


def _sources(
    file: GGUFFile, model: Module, architecture: Architecture
) -> dict[str, _Source | None]:
    """For each parameter of the model its place in the file; None for a bias of zeros.

    Every tensor must be of the shape the model wants and be used, or the file isn't for it.
    """
    sources: dict[str, _Source | None] = {}
    used = set(_ROPE_TENSORS)
    for path, value in _parameters(model):
        source: _Source | None = ()
        for name in architecture.tensor_names(path):
            found = _find(file, name, architecture)
            if found is None and not (architecture.zero_biases and name.endswith(".bias")):
                raise ModelError(f"{file.path} lacks tensor '{name}': download or convert it again")
            source = None if found is None or source is None else source + found
        sources[path] = source
        for part in source or ():
            used.add(part.tensor.name)
            if not has_values(part.tensor.type):
                raise ModelError(
                    f"{file.path}: tensor '{part.tensor.name}' is of type {part.tensor.type.name}, "
                    "which models can't use; convert the model again"
                )
        _check_shape(file, name, source, tuple(value.shape))
    unused = [name for name in file.tensors if name not in used and not _drafts(name, architecture)]
    if unused:
        raise ModelError(
            f"{file.path} holds tensor '{unused[0]}', which isn't supported "
            f"for models of architecture '{file.metadata['general.architecture']}'"
        )
    return sources


def _parameters(model: Any) -> list[tuple[str, Any]]:
    flat: Any = tree_flatten(model.parameters())
    return list(flat)


def _drafts(name: str, architecture: Architecture) -> bool:
    """Whether a tensor is of a layer that is for drafting only."""
    parts = name.split(".")
    layer = int(parts[1]) if parts[0] == "blk" and parts[1].isdigit() else -1
    return architecture.n_layers is not None and layer >= architecture.n_layers


def _find(file: GGUFFile, name: str, architecture: Architecture) -> _Source | None:
    """The tensor of this name; or, where q, k and v are fused or apart against the model, that."""
    tensors = file.tensors
    if name in tensors:
        return (_Rows(tensors[name]),)
    *start, stem, suffix = name.rsplit(".", 2)
    if not start:
        return None
    if stem == "attn_qkv":
        parts = [
            tensors.get(f"{start[0]}.{one}.{suffix}") for one in ("attn_q", "attn_k", "attn_v")
        ]
        return tuple(_Rows(part) for part in parts if part) if all(parts) else None
    fused = tensors.get(f"{start[0]}.attn_qkv.{suffix}")
    if fused is None or stem not in ("attn_q", "attn_k", "attn_v"):
        return None
    config = architecture.config
    q_rows = config["num_attention_heads"] * config["head_dim"]
    kv_rows = config["num_key_value_heads"] * config["head_dim"]
    starts = {"attn_q": 0, "attn_k": q_rows, "attn_v": q_rows + kv_rows}
    stop = None if stem == "attn_v" else starts[stem] + (q_rows if stem == "attn_q" else kv_rows)
    return (_Rows(fused, starts[stem], stop),)


def _check_shape(
    file: GGUFFile, name: str, source: _Source | None, wanted: tuple[int, ...]
) -> None:
    if source is None:
        return
    shapes = [part.shape for part in source]
    shape = (sum(shape[0] if shape else 0 for shape in shapes), *shapes[0][1:])
    # GGUF has no axes of length 1, as a convolution has, and some norms in groups.
    fits = [n for n in shape if n != 1] == [n for n in wanted if n != 1]
    fits = fits or wanted == (math.prod(shape),)
    if not fits or any(other[1:] != shape[1:] for other in shapes):
        raise ModelError(
            f"{file.path}: tensor '{name}' is of shape {list(shape)}, not {list(wanted)} "
            "as its metadata says; convert the model again"
        )


def _packed_form(source: _Source | None) -> AffineForm | None:
    """The form in which MLX can hold a parameter exactly as the file does, if there is one."""
    kinds = {part.tensor.type for part in source or ()}
    is_matrix = all(len(part.shape) > 1 for part in source or ())
    return mlx_form(kinds.pop()) if len(kinds) == 1 and is_matrix else None


def _is_mxfp4(source: _Source | None) -> bool:
    return source is not None and {part.tensor.type.name for part in source} == {"mxfp4"}


def _quantize(
    model: Module, architecture: Architecture, sources: dict[str, _Source | None]
) -> None:
    """Make quantised layers of those whose weights MLX can hold as they are."""

    def form(path: str, module: Module) -> bool | dict[str, Any]:
        weight = f"{path}.weight"
        if _is_mxfp4(sources.get(weight)) and not architecture.changes_value(weight):
            return _MXFP4 if hasattr(module, "to_quantized") else False
        packed = _packed_form(sources.get(weight))
        if packed is None or not hasattr(module, "to_quantized"):
            return False
        if architecture.changes_value(weight) and packed.group_size > _GROUP_THAT_MOVES:
            return False
        return {"group_size": packed.group_size, "bits": packed.bits, "mode": "affine"}

    quantize(model, class_predicate=form)


def _panel_forms(
    model: Any, architecture: Architecture, sources: dict[str, _Source | None]
) -> dict[str, Form]:
    """The paths of the layers that are to be of panels, and how they are stored."""
    forms: dict[str, Form] = {}
    for path, module in model.named_modules():
        source = sources.get(f"{path}.weight")
        kinds = {part.tensor.type for part in source or ()}
        if source is None or len(kinds) != 1 or architecture.changes_value(f"{path}.weight"):
            continue
        if source[0].tensor.shape[1:] != module.weight.shape[1:]:
            continue
        form = panel_form(module, kinds.pop())
        if form is not None:
            forms[path] = form
    return forms


def _halve(model: Any, file: GGUFFile, architecture: Architecture) -> None:
    """Make every float number of the model a 16-bit one, but for those that others depend on.

    Some models' activations leave the range of float16, and bfloat16 weights may.
    """
    is_wide = any(tensor.type.name == "bf16" for tensor in file.tensors.values())
    wide = is_wide or architecture.module.startswith(_WIDE)
    exact = [(path, value) for path, value in _parameters(model) if path.endswith(_EXACT)]
    model.set_dtype(mx.bfloat16 if wide else mx.float16)
    model.load_weights(exact, strict=False)


def _fill(
    model: Any,
    file: GGUFFile,
    architecture: Architecture,
    sources: dict[str, _Source | None],
    weights: Weights,
    forms: dict[str, Form],
    progress: Progress,
    cutter: LayerCutter | None,
) -> dict[str, PanelMatrix]:
    """Load every parameter, in the file's order, and report how much of it is done.

    Gives the matrices of the layers that are to be of panels.
    """
    matrices: dict[str, PanelMatrix] = {}
    quantised = {path for path, module in model.named_modules() if hasattr(module, "scales")}
    total = sum(part.tensor.size for source in sources.values() for part in source or ())
    shapes = {path: value.shape for path, value in _parameters(model)}
    done = 0
    with ThreadPoolExecutor(min(_MOST_THREADS, cpu_count() or 1)) as executor:
        for path, source in _in_file_order(sources):
            stem = path.rpartition(".")[0]
            values: list[tuple[str, mx.array]]
            if source is None:
                values = [(path, mx.zeros(shapes[path]))]
            elif stem in forms and path.endswith(".weight"):
                values = []
                matrices[stem] = _panels(file, source, forms[stem], executor)
            elif stem in quantised and path.endswith(".weight"):
                values = _packed_values(file, stem, source)
            else:
                array = _plain_values(file, source, weights, executor)
                if architecture.norms_hold_one_plus and stem.endswith("norm"):
                    array = array - 1
                values = [(path, array.reshape(shapes[path]))]
            values = [(at, architecture.changed(at, array)) for at, array in values]
            mx.eval([array for _, array in values])
            model.load_weights(values, strict=False)
            if cutter is not None:
                cutter.filled(path)
            done += sum(part.tensor.size for part in source or ())
            progress(done / max(1, total))
    model.eval()
    return matrices


def _panels(file: GGUFFile, source: _Source, form: Form, executor: Executor) -> PanelMatrix:
    raw = [part.raw(file).reshape(-1) for part in source]
    n_rows = sum(math.prod(part.shape[:-1]) for part in source)
    joined = raw[0] if len(raw) == 1 else np.concatenate(raw)
    return read_panels(joined, source[0].tensor.type, n_rows, form, executor)


def _in_file_order(
    sources: dict[str, _Source | None],
) -> Iterator[tuple[str, _Source | None]]:
    def place(item: tuple[str, _Source | None]) -> tuple[int, int]:
        source = item[1]
        return (source[0].tensor.part, source[0].tensor.offset) if source else (0, 0)

    yield from sorted(sources.items(), key=place)


def _packed_values(file: GGUFFile, stem: str, source: _Source) -> list[tuple[str, mx.array]]:
    if _is_mxfp4(source):
        fours = [pack_mxfp4(part.raw(file), part.shape) for part in source]
        return [
            (f"{stem}.weight", mx.array(np.concatenate([each.weight for each in fours]))),
            (f"{stem}.scales", mx.array(np.concatenate([each.scales for each in fours]))),
        ]
    packed = [pack(part.raw(file), part.tensor.type, part.shape) for part in source]

    halves = all(each.scales.dtype == np.float16 for each in packed)
    # An embedding's vectors come out in its scales' type, which then would round them.
    dtype = mx.float16 if halves and "embed_tokens" not in stem else mx.float32

    def joined(arrays: list[npt.NDArray[Any]]) -> mx.array:
        return mx.array(arrays[0] if len(arrays) == 1 else np.concatenate(arrays))

    return [
        (f"{stem}.weight", joined([each.weight for each in packed])),
        (f"{stem}.scales", joined([each.scales for each in packed]).astype(dtype)),
        (f"{stem}.biases", joined([each.biases for each in packed]).astype(dtype)),
    ]


def _plain_values(
    file: GGUFFile, source: _Source, weights: Weights, executor: Executor
) -> mx.array:
    """Values as float32 if all are to be, else in the file's float type, float16 if quantised."""
    shape = (sum(part.shape[0] for part in source), *source[0].shape[1:])
    array = mx.zeros(shape, mx.float32)
    mx.eval(array)
    # numpy writes straight into the array's memory, so the values exist only once.
    view = np.array(array, copy=False)
    row = 0
    for part in source:
        rows = part.shape[0]
        fill_float32(part.raw(file), part.tensor.type, view[row : row + rows], executor)
        row += rows
    if weights in ("native", "half"):
        kinds = {part.tensor.type for part in source}
        name = kinds.pop().name if len(kinds) == 1 else "f16"
        return array.astype({"f32": mx.float32, "bf16": mx.bfloat16}.get(name, mx.float16))
    return array
