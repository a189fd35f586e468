"""The engine: one thread that owns the model and every MLX call, reached through thread-safe calls."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

from engine.events import Event
from engine.metrics import Metrics
from engine.settings import EngineSettings
from engine.slot import SlotView
from engine.task import CompletionTask

State = Literal["loading", "ready", "failed", "stopped"]


class Engine:
    """Loads a model and answers tasks until it is stopped; every method may be called from any thread."""

    def __init__(self, settings: EngineSettings) -> None:
        raise NotImplementedError

    def start(self, *, on_progress: Callable[[float], None] | None = None) -> None:
        """Start the thread and load the model there; `on_progress` gets shares of 1 on that thread."""

    def wait_ready(self, timeout: float | None = None) -> bool: ...

    def submit(self, task: CompletionTask, sink: Callable[[Event], None]) -> int: ...

    def cancel(self, task_id: int) -> None: ...

    def slots(self) -> "Future[list[SlotView]]": ...

    def metrics(self, *, reset_recent: bool) -> "Future[Metrics]": ...

    def stop(self, timeout: float | None = None) -> None: ...
