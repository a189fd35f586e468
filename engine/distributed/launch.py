"""How this process was launched: alone, or by `mlx.launch` as one of several that share a model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError


@dataclass(frozen=True, slots=True)
class Launch:
    """This process's place among those that were launched together."""

    rank: int
    """From 0, whose process is the one that answers HTTP."""
    size: int
    host: str
    """Where rank 0 can be reached: an address of its own, and a port that only its backend uses."""
    port: int


def launch_of(environment: Mapping[str, str]) -> Launch | None:
    """What `mlx.launch` says in a process's environment; None if the process is on its own.

    Raises `ModelError` if it was launched in a way that can't work.
    """
    if int(environment.get("OMPI_COMM_WORLD_SIZE", "1")) > 1:
        raise ModelError("models aren't shared over MPI: use mlx.launch --backend ring")
    if "MLX_RANK" not in environment:
        return None
    try:
        size, address = _group(environment)
        if size < 2:
            return None
        host, _, port = address.rpartition(":")
        launch = Launch(int(environment["MLX_RANK"]), size, host, int(port))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(
            f"the environment isn't as mlx.launch sets it up ({type(error).__name__}: {error}):"
            " start with mlx.launch, or without MLX_RANK"
        ) from None
    if not 0 <= launch.rank < size or not host:
        raise ModelError(f"MLX_RANK is {launch.rank} among {size} processes: use mlx.launch")
    return launch


def _group(environment: Mapping[str, str]) -> tuple[int, str]:
    """How many processes there are, and the address on which rank 0's backend will listen."""
    if "MLX_HOSTFILE" in environment:
        hosts = _read(environment["MLX_HOSTFILE"])
        return len(hosts), hosts[0][0] if hosts else ""
    if "MLX_JACCL_COORDINATOR" in environment:
        return len(_read(environment["MLX_IBV_DEVICES"])), environment["MLX_JACCL_COORDINATOR"]
    if "MLX_WORLD_SIZE" in environment:
        address = f"{environment['NCCL_HOST_IP']}:{environment['NCCL_PORT']}"
        return int(environment["MLX_WORLD_SIZE"]), address
    return 1, ""


def _read(path: str) -> Any:
    """The JSON in a file; `mlx.launch` leaves it empty for a process on its own."""
    text = Path(path).read_text()
    return json.loads(text) if text.strip() else []
