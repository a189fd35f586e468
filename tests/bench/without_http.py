"""The engine in a process of its own, given its tasks without HTTP.

Prints a line once the model is loaded, then one for each line of standard input, all JSON: how
fast the prompts were continued, and what memory MLX had.
"""

import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.engine import Engine
from engine.events import Event, Failed, Final, Token
from engine.open_model import open_model
from engine.task import CompletionTask
from generated import options
from generated.requests.completion import read_completion
from handlers.completion import sampling_params
from handlers.main import engine_settings
from handlers.reading import CompletionReading
from tests.bench.load import LoadError, speed
from tests.bench.servers import completion
from tests.tiny_llama import task

_LIMIT = 600.0


def main(argv: list[str]) -> None:
    """Take the server's arguments, with a number for the slots."""
    settings = options.parse(argv, {}, list)
    load = partial(open_model, Path(settings.model), n_ctx=None)
    engine = Engine(engine_settings(settings), load)
    engine.start()
    if not engine.wait_ready():
        sys.exit(f"error: {engine.failure}")
    print(json.dumps(_memory(engine)), flush=True)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        reset = engine.ask(lambda _: mx.reset_peak_memory())
        reset.result(_LIMIT)
        moments = _run(engine, settings, asked["prompts"], asked["n_predict"])
        answer = {"speed": _speed(moments, asked["n_predict"]), **_memory(engine)}
        print(json.dumps(answer), flush=True)
    engine.stop(_LIMIT)


def _speed(moments: list[list[float]], n_predict: int) -> float | None:
    """Tokens a second; None for streams that never ran together."""
    try:
        return speed(moments, n_predict)
    except LoadError:
        return None


def _memory(engine: Engine) -> dict[str, int]:
    """Bytes that MLX holds now, and the most that it held since the last question."""

    def ask(_: object) -> dict[str, int]:
        mx.clear_cache()
        return {"held": mx.get_active_memory(), "peak": mx.get_peak_memory()}

    return engine.ask(ask).result(_LIMIT)


def _run(
    engine: Engine, settings: options.Settings, prompts: list[str | list[int]], n_predict: int
) -> list[list[float]]:
    """Continue all prompts at once; when each one's tokens came."""
    moments: list[list[float]] = [[] for _ in prompts]
    ended: list[Event] = []

    def sink(event: Event, own: list[float]) -> None:
        if isinstance(event, Token):
            own.append(time.perf_counter())
        elif isinstance(event, Final | Failed):
            ended.append(event)

    tasks = [_task(engine, settings, prompt, n_predict) for prompt in prompts]
    for one, own in zip(tasks, moments, strict=True):
        engine.submit(one, partial(sink, own=own))
    end = time.monotonic() + _LIMIT
    while len(ended) < len(prompts) and time.monotonic() < end:
        time.sleep(0.01)
    return moments


def _task(
    engine: Engine, settings: options.Settings, prompt: str | list[int], n_predict: int
) -> CompletionTask:
    """What a handler makes of such a request."""
    tokenizer = engine.tokenizer
    body = completion("", n_predict)
    read = read_completion(body, settings, CompletionReading(tokenizer, settings))
    read = replace(read, logit_bias=tuple((token, float("-inf")) for token in tokenizer.eog))
    sampling = sampling_params(read, grammar_begins_in_prompt=False)
    if isinstance(prompt, str):
        prompt = tokenizer.encode(prompt, add_special=True, parse_special=True)
    return task(prompt, sampling=sampling, n_predict=n_predict, return_tokens=False)


if __name__ == "__main__":
    main(sys.argv[1:])
