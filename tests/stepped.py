"""The real scheduler, stepped by the test itself, and what it told the tasks it was given."""

from dataclasses import replace
from typing import Any

from engine.events import Event, Final, Token
from engine.run import Request
from engine.scheduler import Scheduler
from engine.settings import context_sizes
from engine.task import CompletionTask
from tests.tiny_llama import TinyModel, model_here, settings


class Server:
    """A scheduler with the events of each task by its id."""

    def __init__(self, model: TinyModel | None = None, draft: Any = None, **changes: Any) -> None:
        model = model or model_here()
        setup = settings(**changes)
        sizes = context_sizes(setup, model.n_ctx_train)
        self.scheduler = Scheduler(model.model, model.tokenizer, setup, sizes, draft)
        self.events: dict[int, list[Event]] = {}

    def submit(self, task: CompletionTask) -> int:
        id = len(self.events)
        self.events[id] = []
        self.scheduler.submit(Request(id, task, self.events[id].append))
        return id

    def submit_together(self, *tasks: CompletionTask) -> list[int]:
        """The first reads the prompt for all."""
        ids = [len(self.events) + n for n in range(len(tasks))]
        self.events |= {id: [] for id in ids}
        parent, *children = [
            Request(id, task, self.events[id].append) for id, task in zip(ids, tasks, strict=True)
        ]
        self.scheduler.submit(replace(parent, children=tuple(children)))
        return ids

    def run(self) -> None:
        while not self.scheduler.idle:
            self.scheduler.step()

    def answer(self, task: CompletionTask) -> list[Event]:
        """All events of a task served alone."""
        id = self.submit(task)
        self.run()
        return self.events[id]

    def final(self, task: CompletionTask) -> Final:
        event = self.answer(task)[-1]
        assert isinstance(event, Final)
        return event

    def busy(self) -> list[int | None]:
        """The task in each slot."""
        return [s.id_task if s.is_processing else None for s in self.scheduler.slots()]


def tokens_of(events: list[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Token) for token in event.tokens]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))
