"""The command line's cache types, served: what the log says, and what is refused at start."""

import subprocess

import httpx
import pytest

from codegen.capture.probes import Setup
from codegen.capture.server import ROOT, model_file, our_command, serving


def served(*arguments: str) -> tuple[str, str]:
    """The log up to an answer, and the answer's text."""
    with serving(our_command(), Setup("types", "made:llama", ("-np", "1", *arguments))) as server:
        body = {"prompt": "in an", "temperature": 0, "n_predict": 6}
        content = httpx.post(f"{server.url}/completion", json=body).json()["content"]
        return server.log.read_text(), content


# 2048 cells, two layers, two heads of 32.
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "2.00 MiB (2048 cells, 2 layers), K (f32): 1.00 MiB, V (f32): 1.00 MiB"),
        (
            ("-ctk", "q8_0", "-ctv", "bf16"),
            "0.78 MiB (2048 cells, 2 layers), K (q8_0): 0.28 MiB, V (bf16): 0.50 MiB",
        ),
    ],
)
def test_the_log_says_types_and_sizes(arguments: tuple[str, ...], says: str) -> None:
    log, content = served(*arguments)
    assert f"KV cache of a full slot: {says}\n" in log
    assert content == "52\nM\nM"


def test_quantised_values_go_with_any_attention() -> None:
    assert served("-ctv", "q8_0", "-fa", "off")[1] == "52\nM\nM"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-ctv", "iq4_nl"), "MLX has no form of iq4_nl for a KV cache: use q4_0 or q4_1"),
        (
            ("-ctk", "q8_0", "-ctv", "q4_1"),
            "-ctk q8_0 -ctv q4_1: 32 doesn't divide this model's heads of 48: use f16",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments: tuple[str, ...], says: str) -> None:
    model = model_file("made:qwen3")
    command = [*our_command(), "-m", str(model), "--port", "0", "--log-disable", *arguments]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, f"error: {says}\n")
