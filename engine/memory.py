"""Keeps MLX from hoarding memory, and gives it back to the system while there is nothing to do."""

import ctypes

import mlx.core as mx

_KEPT_ON_CPU, _KEPT_ON_GPU = 32 << 20, 1 << 30
"""Bytes of freed buffers that MLX may hold on to."""


def limit_free_buffers() -> None:
    """Bound what MLX keeps of freed memory: room for a step's temporaries, no hoard.

    On a CPU new memory costs nothing that could be measured, while attention's temporaries, each
    a little larger than the last chunk's, would pile up to more than a small model's weights.
    """
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    mx.set_cache_limit(_KEPT_ON_CPU if on_cpu else _KEPT_ON_GPU)


def give_back() -> None:
    """Free what MLX keeps for its next arrays, and what the C library keeps of freed memory.

    The latter only where it can be told to (glibc): it keeps the gaps that mixed requests leave
    between what is still used, a tenth of a small server's memory. Takes some milliseconds.
    """
    mx.clear_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
