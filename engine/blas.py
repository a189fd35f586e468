"""Gives MLX on a Linux CPU a fast BLAS: its wheel bundles one that is 20 to 30 times slower."""

import ctypes
import logging
import mmap
import os
import sys
from pathlib import Path
from typing import Any

from engine.panels import native

log = logging.getLogger(__name__)

_PROT_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_BLAS: list[Any] = []
"""The library that MLX uses, once it does."""
_CHOSEN: list[int] = []


def use_openblas() -> bool:
    """Point MLX's calls of `cblas_sgemm` at the OpenBLAS of the `scipy-openblas32` wheel.

    That wheel picks its kernels for the processor at run time, and prefixes its symbols with
    `scipy_` so that it never clashes; so MLX's one import of the plain name is rebound in its
    global offset table. Does nothing, and returns False, outside Linux or where a part is
    missing (for example MLX for CUDA): serving then works as MLX came.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        import mlx.core
        import scipy_openblas32
    except ImportError:
        return False
    folder = Path(scipy_openblas32.__file__).parent
    library = ctypes.CDLL(str(folder / "lib" / "libscipy_openblas.so"))
    address = ctypes.cast(library.scipy_cblas_sgemm, ctypes.c_void_p).value or 0
    if native.can_compile():
        try:
            address = native.product_hook(address)
        except RuntimeError as error:  # for example where the system forbids to run what is made
            log.warning("matrix products can't be compiled here, so they are slower: %s", error)
    mlx_libraries = Path(mlx.core.__file__).parent.glob("lib/libmlx*.so*")
    rebound = [_rebind(path, "cblas_sgemm", address) for path in mlx_libraries]
    if not any(rebound):
        return False
    _BLAS.append(library)
    native.put_in_place()
    return True


def use_threads(n_threads: int = -1) -> None:
    """Have matrix products shared by so many threads; only the first call decides.

    By default, or with a number below 1, it is OPENBLAS_NUM_THREADS, or one for each processor.
    """
    if _CHOSEN or not _BLAS:
        return
    if n_threads < 1:
        wanted = os.environ.get("OPENBLAS_NUM_THREADS", "")
        own = int(wanted) if wanted.isdigit() else 0
        n_threads = own or len(os.sched_getaffinity(0))
    _CHOSEN.append(n_threads)
    _BLAS[0].scipy_openblas_set_num_threads(n_threads)
    native.start_threads(n_threads)


def _rebind(library: Path, symbol: str, address: int) -> bool:
    """Write `address` into every slot through which a loaded library imports `symbol`."""
    base = _load_address(library)
    slots = _import_slots(library, symbol) if base is not None else []
    for slot in slots:
        _write_pointer((base or 0) + slot, address)
    return bool(slots)


def _load_address(library: Path) -> int | None:
    """Where the loader mapped the library's first byte; None if it isn't loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, _, *path = line.split(maxsplit=5)
        if path and int(offset, 16) == 0 and Path(path[0]).resolve() == library.resolve():
            return int(span.split("-")[0], 16)
    return None


def _import_slots(library: Path, symbol: str) -> list[int]:
    """The offsets from the load address of the pointers that stand for an imported symbol."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection

    with library.open("rb") as stream:
        elf: Any = ELFFile(stream)
        names = elf.get_section_by_name(".dynsym")
        calls = elf.get_section_by_name(".rela.plt")
        if not isinstance(calls, RelocationSection):
            return []
        return [
            int(relocation["r_offset"])
            for relocation in calls.iter_relocations()
            if names.get_symbol(relocation["r_info_sym"]).name == symbol
        ]


def _write_pointer(at: int, value: int) -> None:
    """Store a pointer at an address, which the loader may have made read-only after linking."""
    page = at & ~(mmap.PAGESIZE - 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), _PROT_READ_WRITE):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.c_void_p.from_address(at).value = value
