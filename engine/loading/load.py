"""Loads a model from whatever a path names, in the precision that suits the device."""

import os
from pathlib import Path

import mlx.core as mx

from engine.blas import use_threads
from engine.errors import ModelError
from engine.gguf.file import GGUFFile, read_gguf
from engine.loading.gguf_model import load_gguf
from engine.loading.huggingface import load_directory, stored_values
from engine.loading.rope import RopeOptions
from engine.loading.sharing import Share
from engine.loading.types import LoadedModel, Progress, Weights
from engine.panels.native import available

# What is left free for the KV cache and everything else.
_MEMORY_SHARE = 0.75


def load_model(
    path: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    n_ctx: int | None = None,
    weights: Weights | None = None,
    rope: RopeOptions | None = None,
    share: Share | None = None,
) -> LoadedModel:
    """Load a GGUF file, the first part of one, or a directory with config.json and safetensors.

    `progress` is called with the part that is loaded, from 0.0 to 1.0. `n_ctx` is the context in
    tokens that one sequence will have, the model's own if None; a few models compute differently
    in a long one. `weights` is by default "float32" on a CPU, where MLX computes with nothing else
    fast, or "native" if memory is short for that; on a GPU it is "half". `rope`
    overrides how positions are encoded (GGUF only). With `share` only this process's part of the
    model is kept, in weights that all processes agree on. Nothing is ever downloaded. Evaluates
    on the calling thread; the model may be used on any one thread afterwards.

    Raises `ModelError` whenever the model can't be loaded.
    """
    report = progress or _ignore
    report(0.0)
    use_threads()
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    if on_cpu:
        # On a CPU it gains nothing and calls a C++ compiler while serving.
        mx.disable_compile()
    where = Path(path)
    if where.is_dir():
        chosen = weights or _chosen(on_cpu, stored_values(where), share)
        loaded = load_directory(where, weights=chosen, progress=report, share=share)
    else:
        file = read_gguf(where)
        chosen = weights or _chosen(on_cpu, sum(t.size for t in file.tensors.values()), share)
        loaded = _load_gguf(file, chosen, report, n_ctx, rope or RopeOptions(), share)
    report(1.0)
    return loaded


def _load_gguf(
    file: GGUFFile,
    weights: Weights,
    report: Progress,
    n_ctx: int | None,
    rope: RopeOptions,
    share: Share | None,
) -> LoadedModel:
    try:
        return load_gguf(
            file, weights=weights, progress=report, n_ctx=n_ctx, rope=rope, share=share
        )
    except MemoryError:
        raise ModelError(
            f"{file.path} needs more memory than there is: use a smaller or more quantised model"
        ) from None


def _ignore(_: float) -> None:
    pass


def _chosen(on_cpu: bool, n_values: int, share: Share | None) -> Weights:
    if share is not None:
        # mlx-lm cuts MLX's own layers only, not those of panels.
        own = _suited(on_cpu, n_values // share.size, panels=False)
        return share.agree(own, n_values)
    return _suited(on_cpu, n_values, panels=available())


def _suited(on_cpu: bool, n_values: int, *, panels: bool) -> Weights:
    if not on_cpu:
        return "half"
    if panels:
        return "panels"
    free = _free_memory()
    fits = free is None or 4 * n_values < _MEMORY_SHARE * free
    return "float32" if fits else "native"


def _free_memory() -> int | None:
    """Bytes that can be had without swapping; None if the system doesn't say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
