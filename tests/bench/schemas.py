"""Whether a real model writes valid JSON for every one of many schemas."""

import json
import time

import jsonschema

from engine.events import Final
from engine.open_model import open_model
from handlers.json_schema import schema_to_grammar
from tests.sampling_cases import params
from tests.small_schemas import SCHEMAS
from tests.smollm2 import path
from tests.stepped import Server, text_of
from tests.tiny_llama import task

_N_PREDICT = 100


def report() -> None:
    """Let the model answer all of them, and print how many answers are valid and complete."""
    opened = open_model(path(), None)
    server = Server(opened, n_ctx=512, n_parallel=2, n_ubatch=64)  # type: ignore[arg-type]
    start = time.perf_counter()
    tasks = {}
    for number, (subject, schema) in enumerate(SCHEMAS.items()):
        prompt = opened.tokenizer.encode(
            f"As JSON: {subject}:", add_special=True, parse_special=False
        )
        sampling = params(seed=number, temperature=0.7, grammar=schema_to_grammar(schema))
        tasks[subject] = server.submit(task(prompt, sampling=sampling, n_predict=_N_PREDICT))
    server.run()
    valid, n_tokens = 0, 0
    for subject, id in tasks.items():
        text, final = text_of(server.events[id]), server.events[id][-1]
        n_tokens += final.n_decoded if isinstance(final, Final) else 0
        wrong = _wrong(text, SCHEMAS[subject])
        if wrong is None and isinstance(final, Final) and final.stop_type == "eos":
            valid += 1
        else:
            print(f"{subject}: {text!r} {wrong or 'did not end'}")
    seconds = time.perf_counter() - start
    print(f"valid JSON for {valid} of {len(SCHEMAS)} schemas, {n_tokens} tokens, {seconds:.0f} s")


def _wrong(text: str, schema: dict[str, object]) -> str | None:
    """What is wrong with an answer, or None."""
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    return None
