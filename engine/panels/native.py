"""Compiles the products for this processor, and starts the threads that share them."""

import ctypes
import platform
import struct
import sys
import threading
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from engine.panels.form import FLOAT32, Form

# Two 64-bit numbers with which a matrix begins that stands for panels; any will do.
MAGIC = (0x6D5F8E31C2A7094B, 0x3B9D17F65E80C4A2)
# A matrix is looked into if it has this many values, so that its description can be read.
LEAST_VALUES = 64
# Less than this many groups of 16 weights are multiplied faster by one thread than by several.
_LEAST_GROUPS = 256
# How often a thread looks for work, with a pause between, before it sleeps: some 0.1 ms.
_SPINS = 2000
# What a thread that looks again and again does between, for each kind of processor.
_PAUSES = {
    "x86_64": {
        "declaration": "declare void @llvm.x86.sse2.pause()",
        "call": "@llvm.x86.sse2.pause()",
    },
    "aarch64": {
        "declaration": "declare void @llvm.aarch64.hint(i32)",
        "call": "@llvm.aarch64.hint(i32 1)",
    },
}


def can_compile() -> bool:
    """Whether products can be compiled here: on Linux, with LLVM installed."""
    if not sys.platform.startswith("linux") or platform.machine() not in _PAUSES:
        return False
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


def converts_halves() -> bool:
    """Whether the processor has an instruction that makes float32 of float16."""
    import llvmlite.binding as llvm

    return platform.machine() == "aarch64" or llvm.get_host_cpu_features().get("f16c", False)


def available() -> bool:
    """Whether MLX's products go through `product_hook`."""
    return bool(_IN_PLACE)


def product_hook(blas: int) -> int:
    """The address of a `cblas_sgemm` that knows panels; it calls the one at `blas` for the rest."""
    module = _compiled(
        _source(
            "product.ll.j2",
            blas=blas,
            magic=MAGIC,
            least_values=LEAST_VALUES,
            least_groups=_LEAST_GROUPS,
            spins=_SPINS,
            pause=_PAUSES[platform.machine()],
        )
    )
    _HOOKS.append(module)
    return int(module.get_function_address("sgemm"))


def kernel(form: Form) -> int:
    """The address of the product with panels of this form."""
    return int(_kernels(form).get_function_address(form.name))


@cache
def _kernels(form: Form) -> Any:
    rows = 0
    if form != FLOAT32:
        rows = _kernels(FLOAT32).get_function_address(f"{FLOAT32.name}_rows")
    return _compiled(_source("kernels.ll.j2", form=form, unpacked=FLOAT32, unpacked_rows=rows))


@cache
def attention(head_dim: int) -> tuple[int, int]:
    """The addresses of `append` and `attend` for heads of so many numbers, a multiple of 16."""
    module = _compiled(_source("attention.ll.j2", d=head_dim, hex=_float_literal))
    return int(module.get_function_address("append")), int(module.get_function_address("attend"))


def address_of(array: Any) -> int:
    """Where a numpy array's memory begins."""
    at: int = array.__array_interface__["data"][0]
    return at


class StandIns(NamedTuple):
    """Matrices to multiply with."""

    together: mx.array
    """[n, n_columns, n_rows]"""
    each: list[mx.array]
    """[n_columns, n_rows] each"""


def stand_ins(
    data: Sequence[int],
    n_groups: int,
    shape: tuple[int, int],
    function: int,
    *,
    before: int = 0,
    n_parts: int = 0,
) -> StandIns:
    """What MLX is told to multiply with: it hands on addresses and shapes.

    `data` are the addresses of what the matrices stand for. The numbers themselves, which would
    lie behind the descriptions, are never read: so they can't be sliced or copied either.
    """
    heads = [
        struct.pack("<QQQqqQQq", *MAGIC, at, n_groups, shape[0], function, before, n_parts)
        for at in data
    ]
    stored = b"".join(head.ljust(4 * LEAST_VALUES, b"\0") for head in heads)
    numbers, strides = mx.array(np.frombuffer(stored, np.float32)), (shape[1], 1)
    together = mx.as_strided(numbers, (len(data), *shape), (LEAST_VALUES, *strides))
    each = [mx.as_strided(numbers, shape, strides, n * LEAST_VALUES).T for n in range(len(data))]
    stand_ins = StandIns(together.swapaxes(1, 2), each)
    mx.eval(stand_ins)
    return stand_ins


def _float_literal(value: float) -> str:
    """A float32 as LLVM writes it: the bits of the same number as a double."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(np.float32(value))))
    return f"0x{bits:016X}"


def start_threads(n_threads: int) -> None:
    """Have products shared by so many threads; to be called once."""
    for module in _IN_PLACE:
        _start_workers(module, n_threads - 1)


def put_in_place() -> None:
    """Say that MLX calls the hook from now on."""
    _IN_PLACE.extend(_HOOKS)


def _source(template: str, **values: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    text = resources.files(__package__ or "").joinpath(template).read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined).from_string(text).render(**values)


# What is compiled lives as long as the process: MLX may call it at any time.
_MODULES: list[Any] = []
_HOOKS: list[Any] = []
_IN_PLACE: list[Any] = []


def _compiled(source: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.create_mcjit_compiler(llvm.parse_assembly(source), machine)
    module.finalize_object()
    _MODULES.append(module)
    return module


def _start_workers(module: Any, n_workers: int) -> None:
    address = module.get_function_address
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(address("initialise"))(n_workers)
    work = ctypes.CFUNCTYPE(None)(address("work"))
    for n in range(n_workers):
        # In C for good, so that Python may end without it.
        threading.Thread(target=work, name=f"product-{n}", daemon=True).start()
