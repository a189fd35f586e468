"""The model without a server: prints its decode and prefill speed as JSON, one line a round."""

import json
import sys
import time
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.open_model import open_model

_CHUNK = 256


def main(gguf: str, n_prompt: int, n_predict: int) -> None:
    """For each line on standard input, measure once."""
    opened = open_model(Path(gguf), None)
    prompt = [(7 * i) % 1000 + 100 for i in range(n_prompt)]
    for _ in sys.stdin:
        cache = make_prompt_cache(opened.model)
        start = time.perf_counter()
        for at in range(0, n_prompt - 1, _CHUNK):
            opened.model(mx.array([prompt[at : min(at + _CHUNK, n_prompt - 1)]]), cache=cache)
            mx.eval([c.state for c in cache])
        token = int(mx.argmax(opened.model(mx.array([prompt[-1:]]), cache=cache)[0, -1]).item())
        read = time.perf_counter()
        for _ in range(n_predict - 1):
            token = int(mx.argmax(opened.model(mx.array([[token]]), cache=cache)[0, -1]).item())
        done = time.perf_counter()
        figures = {"prefill": n_prompt / (read - start), "decode": (n_predict - 1) / (done - read)}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
