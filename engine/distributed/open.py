"""Opens one process's part of a model that several hold together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.distributed.channel import PROTOCOL, Followers, Message
from engine.distributed.launch import Launch
from engine.distributed.runner import SharedRunner
from engine.errors import ModelError
from engine.loading import LoadedModel, Weights
from engine.loading.sharing import Share
from engine.open_model import OpenModel, open_model


@dataclass(frozen=True)
class SharedModel(OpenModel):
    """Rank 0's part of a model, ready to serve."""

    runner: SharedRunner

    @property
    def model(self) -> Any:
        """What runs the model in all processes."""
        return self.runner


def greeting() -> Message:
    """What must be the same in all processes, lest they understand each other differently."""
    return ["protocol", PROTOCOL, "mlx", _version("mlx"), "mlx-lm", _version("mlx-lm")]


def join(launch: Launch) -> Any:
    """MLX's group of all processes, which must all be about to join; raises `ModelError`."""
    try:
        group = mx.distributed.init(strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"rank {launch.rank} can't join the others: {reason}") from None
    if group.size() != launch.size:
        raise ModelError(f"MLX finds {group.size()} processes of {launch.size}: use mlx.launch")
    return group


def open_shared(
    path: Path,
    progress: Callable[[float], None] | None,
    *,
    n_ctx: int | None,
    spare: int,
    launch: Launch,
    followers: Followers,
) -> SharedModel:
    """Rank 0's `open_model`; returns when all processes have loaded. Raises `ModelError`.

    `spare` is for the runner.
    """
    followers.gather(greeting())
    followers.tell("join")
    share = Share(join(launch), partial(agree, followers))
    opened = open_model(path, progress, n_ctx=n_ctx, share=share)
    own = loaded_message(opened.description)
    for rank, message in followers.ask():
        if message != own:
            raise ModelError(f"rank {rank} loaded another model: give all the same file")
    n_vocab = opened.tokenizer.n_tokens
    runner = SharedRunner(opened.model, n_vocab, followers, spare=spare)
    return SharedModel(opened.description, opened.tokenizer, runner)


def agree(followers: Followers, own: Weights, n_values: int) -> Weights:
    """Rank 0's side: as exact as all have the memory for."""
    wanted = {own}
    for rank, (_, weights, others_n_values) in followers.ask():
        if others_n_values != n_values:
            raise ModelError(f"rank {rank} has another model: give all the same file")
        wanted.add(weights)
    chosen: Weights = own if len(wanted) == 1 else "native"
    followers.tell("weights", chosen)
    return chosen


def loaded_message(model: LoadedModel) -> Message:
    """Tells rank 0 what was loaded."""
    return ["loaded", model.description, model.n_params, model.size_bytes, model.n_vocab]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
