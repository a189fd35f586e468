"""The command line against what the reference binary answered: texts, numbers, defaults."""

import json
from pathlib import Path
from typing import Any

import pytest

from generated.cli import CommandLineExit
from generated.options import parse

DATA = Path(__file__).parent / "data"
COMMAND_LINES = json.loads((DATA / "command_lines.json").read_text())["command_lines"]
SERVERS = json.loads((DATA / "command_line_settings.json").read_text())["servers"]
UPSTREAM = json.loads((DATA.parent.parent / "spec/upstream/options.json").read_text())["options"]
OPTIONS = json.loads((DATA.parent.parent / "spec/options.json").read_text())["options"]

NAMES = {
    "temperature": "temp",
    "typical_p": "typ_p",
    "repeat_last_n": "penalty_last_n",
    "repeat_penalty": "penalty_repeat",
    "presence_penalty": "penalty_present",
    "frequency_penalty": "penalty_freq",
}
"""What /props calls the settings that have another name there."""

MEMBERS = {
    "force_pure_content": "force_pure_content_parser",
    "json_schema": "sampling.grammar",
    "mmproj": "mmproj.path",
    "model": "model.path",
    "model_url": "model.url",
    "reranking": "embedding",
    "spec_default": "speculative.types",
    "spec_draft_model": "speculative.draft.mparams.path",
}
"""Upstream's members behind settings that have another name."""


def _name(recorded: dict[str, Any]) -> str:
    environ = [f"{name}={value}" for name, value in recorded.get("environ", {}).items()]
    return " ".join(map(ascii, [*environ, *recorded["argv"]]))


@pytest.mark.parametrize("recorded", COMMAND_LINES, ids=_name)
def test_a_command_line_ends_as_the_reference_does(recorded: dict[str, Any]) -> None:
    with pytest.raises(CommandLineExit) as caught:
        parse(recorded["argv"], recorded.get("environ", {}))
    assert caught.value.status == recorded["status"]
    assert _before_usage(caught.value, recorded) == recorded["stderr"]


def _before_usage(stopped: CommandLineExit, recorded: dict[str, Any]) -> str:
    """stderr up to the option's own help, which is worded differently, and without the log."""
    if recorded["argv"][0:1] == ["--version"]:
        return ""
    head, usage, _ = stopped.err.partition("\n\nusage:\n")
    text = head + usage
    for line in recorded.get("logged", ()):
        assert f"{line}\n" in text
        text = text.replace(f"{line}\n", "", 1)
    return text


@pytest.mark.parametrize("server", SERVERS, ids=lambda s: " ".join(s["argv"]) or "nothing")
def test_settings_are_what_the_reference_shows(server: dict[str, Any]) -> None:
    settings = parse(server["argv"], {})
    shown = {key: getattr(settings, NAMES.get(key, key)) for key in server["sampling"]}
    assert shown == {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in server["sampling"].items()
    }
    assert list(settings.model_alias) == server.get("aliases", [])
    assert list(settings.model_tags) == server["tags"]


def test_the_options_are_upstreams() -> None:
    keys = ("section", "spellings", "negative", "env", "value")
    upstream_keys = ("section", "spellings", "negative_spellings", "env", "hints")
    empty = {"negative": [], "env": None, "value": []}
    assert [{**empty, **{k: o[k] for k in keys if k in o}} for o in OPTIONS] == [
        dict(zip(keys, (o[k] for k in upstream_keys), strict=True)) for o in UPSTREAM
    ]


def test_the_defaults_are_upstreams() -> None:
    compared = {}
    for ours, upstream in zip(OPTIONS, UPSTREAM, strict=True):
        if not upstream["sets"] or "default" not in ours:
            continue
        member, initial = upstream["sets"][0]["member"], upstream["sets"][0]["initial"]
        if isinstance(initial, bool) and member.startswith("no_") and "negative" in ours:
            initial = not initial
        if type(initial) is type(ours["default"]):
            compared[upstream["name"]] = (ours["default"], initial)
    assert {name: pair for name, pair in compared.items() if pair[0] != pair[1]} == {}
    assert len(compared) == 168


def test_settings_have_upstreams_names() -> None:
    for ours, upstream in zip(OPTIONS, UPSTREAM, strict=True):
        if "setting" in ours and upstream["sets"]:
            member = upstream["sets"][0]["member"]
            expected = MEMBERS.get(ours["setting"], ours["setting"])
            in_one = member.replace("speculative.", "spec.").replace(".", "_")
            assert expected in (member, member.rpartition(".")[2], in_one), upstream["name"]
