"""Records what the reference says on made models: `python -m tests.record_loading LLAMA_SERVER`.

Writes tests/data/loading/NAME.json for every case of CASES: `/v1/models`, and for each prompt its
tokens, the greedy ones that follow, and their log-probabilities.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.made_models import RECIPES, write

RECORDS = Path(__file__).parent / "data" / "loading"
PROMPTS = ["The quick brown fox", "in the then: 12 + 7 =", "a"]
N_PREDICT = 64
# The reference's most exact arithmetic: no half floats in its cache, one order of additions.
EXACT = ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1", "-tb", "1", "-np", "1"]


class Case(NamedTuple):
    """A made model, and how the reference is started and ours loaded to compute the same."""

    model: str
    arguments: list[str]
    options: dict[str, Any]


CASES = {
    **{name: Case(name, [], {}) for name in RECIPES if name != "phi3"},
    "phi3-long": Case("phi3", [], {}),
    "phi3-short": Case("phi3", ["-c", "512"], {"n_ctx": 512}),
    "llama-linear": Case(
        "llama",
        ["--rope-scaling", "linear", "--rope-freq-scale", "0.25", "--rope-freq-base", "5000"],
        {"scaling": "linear", "freq_scale": 0.25, "freq_base": 5000.0},
    ),
    "llama-yarn": Case(
        "llama",
        ["--rope-scaling", "yarn", "--rope-freq-scale", "0.25", "--yarn-orig-ctx", "128"],
        {"scaling": "yarn", "freq_scale": 0.25, "orig_ctx": 128},
    ),
    "qwen3-yarn": Case(
        "qwen3",
        [
            *("--rope-scaling", "yarn", "--rope-freq-scale", "0.5", "--yarn-orig-ctx", "512"),
            *("--yarn-beta-fast", "8", "--yarn-beta-slow", "2", "--yarn-ext-factor", "0.75"),
        ],
        {
            "scaling": "yarn",
            "freq_scale": 0.5,
            "orig_ctx": 512,
            "beta_fast": 8.0,
            "beta_slow": 2.0,
            "ext_factor": 0.75,
        },
    ),
}


def record(server: str, case: Case) -> dict[str, Any]:
    """Start the reference on a case's model and ask it everything."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        path = Path(folder) / f"{case.model}.gguf"
        write(case.model, path)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        command = [server, "-m", str(path), "--port", str(port), *EXACT, *case.arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                _wait(client, process)
                meta = client.get("/v1/models").json()["data"][0]["meta"]
                texts = [_greedy(client, prompt) for prompt in PROMPTS]
        finally:
            process.terminate()
            process.wait()
    return {"meta": meta, "texts": texts}


def _wait(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    sys.exit(f"the reference ended with {process.returncode}")


def _greedy(client: httpx.Client, prompt: str) -> dict[str, Any]:
    tokens = client.post("/tokenize", json={"content": prompt, "add_special": True}).json()
    body = {
        "prompt": tokens["tokens"],
        "n_predict": N_PREDICT,
        "temperature": 0,
        "cache_prompt": False,
        "return_tokens": True,
        "n_probs": 1,
    }
    answer = client.post("/completion", json=body).json()
    return {
        "prompt": tokens["tokens"],
        "tokens": answer["tokens"],
        "logprobs": [round(each["logprob"], 5) for each in answer["completion_probabilities"]],
        "stop_type": answer["stop_type"],
    }


def main() -> None:
    """Record the cases named after the server's path, or all."""
    server, *names = sys.argv[1:] or sys.exit("usage: record_loading.py LLAMA_SERVER [CASE...]")
    RECORDS.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        text = json.dumps(record(server, CASES[name]), separators=(",", ":"))
        (RECORDS / f"{name}.json").write_text(text.replace('{"prompt"', '\n{"prompt"') + "\n")
        print(name)


if __name__ == "__main__":
    main()
