"""The README says what is true: its score, and what its commands answer."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from codegen import agreement
from tests.server import StartServer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _commands() -> list[tuple[str, str]]:
    """Every curl command of the README, and the answer that stands below it."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    text = "".join(b for b in blocks if "curl" in b).replace("\\\n", " ")
    return re.findall(r"^(curl .*)\n# (.*)$", text, re.MULTILINE)


def test_the_score_is_what_the_last_replay_measured() -> None:
    kept = agreement.read(ROOT / "spec")
    assert f"**{kept.agreeing} of {kept.replayed}** recorded answers" in README


@pytest.mark.parametrize(("command", "answer"), _commands())
def test_its_commands_answer_as_it_says(
    start_server: StartServer, command: str, answer: str
) -> None:
    server = start_server(model="smollm2")
    words = shlex.split(command.replace("http://127.0.0.1:8080", server.url))
    done = subprocess.run([*words, "-s"], capture_output=True, text=True, check=True, timeout=120)
    shown = answer.removesuffix("…")
    assert done.stdout[: len(shown)] == shown
    assert answer.endswith("…") or done.stdout == answer
