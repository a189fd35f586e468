"""Lets mlx-lm's models be imported without its command-line half, which takes seconds to import."""

import importlib
import importlib.util
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def import_models_only() -> None:
    """Make `import mlx_lm.models.…` load just that.

    The package's own `__init__` imports transformers and lowers the process's limit of open
    files; it still runs, but only when something asks the package itself for a name, for example
    `mlx_lm.load`. Does nothing if mlx-lm has been imported already.
    """
    spec = importlib.util.find_spec("mlx_lm") if "mlx_lm" not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__dict__["__getattr__"] = lambda name: _import_all(package, name)
    sys.modules["mlx_lm"] = package


def import_utils() -> ModuleType:
    """mlx-lm's loading of models, `mlx_lm.utils`; it needs transformers, and so seconds."""
    import_models_only()
    # Transformers would advise to install PyTorch, which nothing here needs.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    with _open_files_unlimited():
        return importlib.import_module("mlx_lm.utils")


@contextmanager
def _open_files_unlimited() -> Iterator[None]:
    """Keep mlx-lm from lowering, for good, how many files and connections the process may open."""
    set_limit = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        yield
    finally:
        resource.setrlimit = set_limit


def _import_all(package: ModuleType, name: str) -> Any:
    spec = package.__spec__
    # Attributes that Python itself looks for must not set it off.
    if (name.startswith("__") and name != "__version__") or spec is None or spec.loader is None:
        raise AttributeError(name)
    package.__dict__.pop("__getattr__", None)
    with _open_files_unlimited():
        spec.loader.exec_module(package)
    return getattr(package, name)
