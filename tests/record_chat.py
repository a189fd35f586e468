"""Records what the reference says about chats: `python -m tests.record_chat LLAMA_SERVER`.

Writes tests/data/chat/*.json for what tests/chat_cases.py lists, with the made Llama model;
only one of the last two with its name as another argument:

- `prompts.json`: for every template its `chat_template_caps` and the prompts of CONVERSATIONS
- `bodies.json`: the answers to BODIES
- `spoken.json`: for every template what becomes of SPOKEN, plainly and streamed
- `language.json`: what becomes of SNIPPETS, and the complaints about BROKEN
- `legacy.json`: the prompts of LEGACY with `--no-jinja`, for every format that has a name
"""

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from handlers.chat_legacy import FORMATS
from tests.chat_cases import (
    BODIES,
    BROKEN,
    CONVERSATIONS,
    LEGACY,
    N_ELSEWHERE,
    RECORDS,
    SNIPPETS,
    SPOKEN,
    SPOKEN_ABOUT,
    TEMPLATES,
    compact,
    snippets_source,
)
from tests.made_models import write

_SETTINGS = ("chat_format", "reasoning_format", "reasoning_in_content", "generation_prompt", "stop")
_MERGED_TOKENS = range(259, 265)
"""Tokens of several characters; without them every frame of a stream has one."""


class Reference:
    """The reference with one template."""

    def __init__(self, program: str, model: Path, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                *(program, "-m", str(model), "--port", str(port), "-np", "1", "-t", "1"),
                *("--no-warmup", *arguments),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        # It closes connections after a hundred requests, without saying so.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits
        )

    def is_ready(self) -> bool:
        """Wait for it; False if it ended instead."""
        while self._process.poll() is None:
            try:
                if self._client.get("/health").status_code == 200:
                    return True
            except httpx.TransportError:
                time.sleep(0.05)
        return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def caps(self) -> Any:
        return self._client.get("/props").json()["chat_template_caps"]

    def post(self, path: str, body: Any) -> list[Any]:
        """Status and body."""
        answer = self._client.post(path, content=json.dumps(body))
        return [answer.status_code, answer.json()]

    def deltas(self, body: Any) -> list[Any]:
        """What a stream's frames add, an error as it is."""
        answer = self._client.post("/v1/chat/completions", json=body | {"stream": True})
        if answer.status_code != 200:
            return [answer.json()]
        found: list[Any] = []
        for line in answer.text.splitlines():
            if line.startswith("data: {"):
                frame = json.loads(line.removeprefix("data: "))
                found += [frame] if "error" in frame else [c["delta"] for c in frame["choices"]]
        return found


def record(program: str, only: str) -> None:
    """Write the files, or only one of them."""
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "made.gguf"
        write("llama", model)
        if only in ("", "language"):
            _write("language", _language(program, model, Path(directory) / "template.jinja"))
        if only in ("", "legacy"):
            _write("legacy", _legacy(program, model))
        if not only:
            _record_templates(program, model)


def _legacy(program: str, model: Path) -> dict[str, Any]:
    found = {}
    for name in FORMATS.keys() - {"dots1"}:
        arguments = ("--no-jinja", "--chat-template", name)
        with _started(program, model, *arguments) as reference:
            found[name] = {k: reference.post("/apply-template", b) for k, b in LEGACY.items()}
    return dict(sorted(found.items()))


def _record_templates(program: str, model: Path) -> None:
    prompts, spoken, bodies = {}, {}, {}
    for name, path in TEMPLATES.items():
        with _started(program, model, "--chat-template-file", str(path)) as reference:
            prompts[name] = _prompts(reference)
            spoken[name] = _spoken(reference)
            if name == "alternating":
                bodies = {k: reference.post("/apply-template", b) for k, b in BODIES.items()}
    _write("prompts", prompts)
    _write("spoken", spoken)
    _write("bodies", bodies)


@contextmanager
def _started(program: str, model: Path, *arguments: str) -> Iterator[Reference]:
    reference = Reference(program, model, *arguments)
    try:
        if not reference.is_ready():
            raise SystemExit(reference.log())
        yield reference
    finally:
        reference.close()


def _prompts(reference: Reference) -> dict[str, Any]:
    answers = {
        name: reference.post("/apply-template", body) for name, body in CONVERSATIONS.items()
    }
    return {"caps": reference.caps(), "answers": answers}


def _spoken(reference: Reference) -> dict[str, Any]:
    return {name: _spoken_in(reference, chat) for name, chat in SPOKEN_ABOUT.items()}


def _spoken_in(reference: Reference, chat: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"texts": {}}
    for text in SPOKEN if chat == SPOKEN_ABOUT["asked"] else SPOKEN[:N_ELSEWHERE]:
        body = chat | {
            "max_tokens": 200,
            "grammar": "root ::= " + json.dumps(text),
            "logit_bias": [[token, False] for token in _MERGED_TOKENS],
            "verbose": True,
        }
        status, answer = reference.post("/v1/chat/completions", body)
        if status == 200:
            settings = answer["__verbose"]["generation_settings"]
            found["settings"] = {key: settings[key] for key in _SETTINGS}
            found["settings"]["prompt"] = answer["__verbose"]["prompt"]
            answer = answer["choices"][0]["message"]
        found["texts"][text] = {
            "plain": [status, answer],
            "streamed": compact(reference.deltas(body)),
        }
    return found


def _language(program: str, model: Path, template: Path) -> dict[str, Any]:
    template.write_text(snippets_source())
    rendered = {}
    with _started(program, model, "--chat-template-file", str(template)) as reference:
        for number, snippet in enumerate(SNIPPETS):
            body = {
                "messages": [{"role": "user", "content": "x"}],
                "chat_template_kwargs": {"snippet": number},
            }
            rendered[snippet] = reference.post("/apply-template", body)
    broken = {source: _complaint(program, model, template, source) for source in BROKEN}
    return {"rendered": rendered, "broken": broken}


def _complaint(program: str, model: Path, template: Path, source: str) -> str:
    """What the reference says of a template before it gives up."""
    template.write_text(source)
    reference = Reference(program, model, "--chat-template-file", str(template))
    try:
        if reference.is_ready():
            raise SystemExit(f"the reference takes {source!r}")
    finally:
        reference.close()
    pattern = r"_init: error: (.*?)\n(?:\d+\.\d+\.\d+\.\d+ |error: )"
    found = re.search(pattern, reference.log(), re.DOTALL)
    # Its log may be cut off when it gives up.
    return found[1] if found else _complaint(program, model, template, source)


def _write(name: str, content: dict[str, Any]) -> None:
    """One line for each member of a member."""
    blocks = []
    for key, value in content.items():
        lines = [f"{_line(k)}:{_line(v)}" for k, v in value.items()] if isinstance(
            value, dict
        ) else [_line(value)]
        inner = ",\n  ".join(lines)
        braces = "{\n  %s\n }" if isinstance(value, dict) else "%s"
        blocks.append(f"{_line(key)}:{braces % inner}")
    (RECORDS / f"{name}.json").write_text("{\n " + ",\n ".join(blocks) + "\n}\n")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
