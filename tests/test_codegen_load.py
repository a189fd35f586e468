"""A spec that is wrong: one line for each problem, with its place, all at once and no traceback."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.codegen_specs import GONE, change, run, small_spec

FIELD = ("fields/completion.json", "properties")
STATUSES = "['supported', 'inert', 'deferred', 'not_applicable']"
WRONG: list[tuple[Sequence[str | int], Any, str]] = [
    # A key that isn't known, and a value of the wrong type, in each kind of file.
    (("pin.json", "date"), "today", "in spec/pin.json: unknown key 'date'"),
    (("pin.json", "build"), "7", "in spec/pin.json: build: '7' is not of type 'integer'"),
    (
        ("routes.json", "routes", 1, "boddy"),
        "completion",
        "in spec/routes.json: POST /completion: unknown key 'boddy'",
    ),
    (
        ("routes.json", "routes", 1, "method"),
        "PUT",
        "in spec/routes.json: PUT /completion: method: 'PUT' is not one of"
        " ['GET', 'POST', 'DELETE']",
    ),
    (
        (*FIELD, "n_predict", "x-llama", "minimum"),
        0,
        "in spec/fields/completion.json: n_predict: x-llama: unknown key 'minimum'",
    ),
    (
        (*FIELD, "n_predict", "x-llama", "aliases"),
        "max_tokens",
        "in spec/fields/completion.json: n_predict: x-llama.aliases: 'max_tokens' is not of type"
        " 'array'",
    ),
    (
        (*FIELD, "stream_options", "properties", "include_usage", "x-llama", "status"),
        "maybe",
        "in spec/fields/completion.json: stream_options: include_usage: x-llama.status: 'maybe' is"
        f" not one of {STATUSES}",
    ),
    (
        ("replies/count.json", "x-llama", "evidense"),
        [],
        "in spec/replies/count.json: x-llama: unknown key 'evidense'",
    ),
    (
        ("errors.json", "texts", "route_deferred", "kind"),
        7,
        "in spec/errors.json: route_deferred: kind: 7 is not of type 'string'",
    ),
    (
        ("metrics.json", "series", 0, "kind"),
        "sum",
        "in spec/metrics.json: tokens_predicted_total: kind: 'sum' is not one of"
        " ['counter', 'gauge']",
    ),
    (
        ("options.json", "options", 1, "spelling"),
        "--metrics",
        "in spec/options.json: --metrics: unknown key 'spelling'",
    ),
    (
        ("divergences.json", "divergences", 0, "kind"),
        "bug",
        "in spec/divergences.json: counts_bytes: kind: 'bug' is not one of"
        " ['to_fix', 'deliberate', 'cannot']",
    ),
    (
        ("exceptions.json", "exceptions", 0, "reason"),
        "",
        "in spec/exceptions.json: 0: reason: '' should be non-empty",
    ),
    # Bodies and replies are JSON Schemas.
    (
        (*FIELD, "n_predict", "type"),
        "int",
        "in spec/fields/completion.json: n_predict: type: 'int' is not valid under any of the"
        " given schemas",
    ),
    (
        ("replies/count.json", "properties", "n_tokens", "minLength"),
        "1",
        "in spec/replies/count.json: n_tokens: minLength: '1' is not of type 'integer'",
    ),
    # What is not supported says why, and what a client gets.
    (
        (*FIELD, "seed", "x-llama", "reason"),
        GONE,
        "in spec/fields/completion.json: seed: x-llama: 'reason' is a required property",
    ),
    (
        ("routes.json", "routes", 3, "instead"),
        GONE,
        "in spec/routes.json: DELETE /cache/:id: 'instead' is a required property",
    ),
    (
        ("metrics.json", "series", 1, "reason"),
        GONE,
        "in spec/metrics.json: drafts_total: 'reason' is a required property",
    ),
    (
        ("replies/count.json", "x-llama"),
        {"upstream": "f", "status": "deferred", "reason": "Later."},
        "in spec/replies/count.json: x-llama: 'instead' is a required property",
    ),
    # Names that nothing has.
    (
        ("routes.json", "routes", 1, "body"),
        "complete",
        "in spec/routes.json: POST /completion: no body spec/fields/complete.json",
    ),
    (
        ("routes.json", "routes", 1, "replies", 1),
        "token",
        "in spec/routes.json: POST /completion: no reply spec/replies/token.json",
    ),
    (
        ("routes.json", "routes", 0, "guard", "error"),
        "no_metrics",
        "in spec/routes.json: GET /metrics: no error text 'no_metrics' in spec/errors.json",
    ),
    (
        ("routes.json", "routes", 0, "guard", "setting"),
        "metrics",
        "in spec/routes.json: GET /metrics: no setting 'metrics' in spec/options.json",
    ),
    (
        ("routes.json", "routes", 2, "divergences", 0),
        "counts",
        "in spec/routes.json: POST /count: no divergence 'counts' in spec/divergences.json",
    ),
    (
        ("routes.json", "routes", 1, "evidence", 0),
        "completion/fancy",
        "in spec/routes.json: POST /completion: no capture 'completion/fancy' under spec/captures",
    ),
    (
        (*FIELD, "n_predict", "x-llama", "evidence", 0),
        "plain",
        "in spec/fields/completion.json: n_predict: no capture 'plain' under spec/captures",
    ),
    (
        (*FIELD, "n_predict", "x-llama", "default", "server"),
        "predict",
        "in spec/fields/completion.json: n_predict: no setting 'predict' in spec/options.json",
    ),
    (
        (*FIELD, "n_predict", "x-llama", "limits", "reject", 1),
        "n_parallel",
        "in spec/fields/completion.json: n_predict: no setting 'n_parallel' in spec/options.json",
    ),
    (
        ("fields/count.json", "x-llama", "extends"),
        "base",
        "in spec/fields/count.json: no body spec/fields/base.json",
    ),
    (
        ("replies/completion.json", "properties", "tokens", "items", "$ref"),
        "token.json",
        "in spec/replies/completion.json: no reply spec/replies/token.json",
    ),
    (
        ("replies/settings.json", "x-llama", "shows"),
        "settings",
        "in spec/replies/settings.json: no body spec/fields/settings.json",
    ),
    (
        ("errors.json", "texts", "context_exceeded", "kind"),
        "too_long",
        "in spec/errors.json: context_exceeded: no kind 'too_long'",
    ),
    (
        ("errors.json", "texts", "route_deferred"),
        GONE,
        "in spec/routes.json: DELETE /cache/:id: no error text 'route_deferred' in"
        " spec/errors.json",
    ),
    (
        ("divergences.json", "divergences", 0, "covers"),
        ["completion/fancy"],
        "in spec/divergences.json: counts_bytes: no capture 'completion/fancy' under spec/captures",
    ),
    (
        ("samplers.json", "samplers", 1, "name"),
        "best",
        "in spec/samplers.json: best stands twice",
    ),
    # Things that don't go together.
    (
        ("routes.json", "routes", 2, "handler"),
        "post_completions",
        "in spec/routes.json: POST /count: post_completions gets the body 'count' here, but"
        " 'completion' from POST /completion",
    ),
    (
        ("routes.json", "routes", 2, "answered_by"),
        "guard",
        "in spec/routes.json: POST /count: answered by its guard, but has none",
    ),
]


@pytest.mark.parametrize(("place", "value", "line"), WRONG, ids=[w[2] for w in WRONG])
def test_each_problem_is_one_line(
    place: Sequence[str | int],
    value: Any,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = small_spec(tmp_path)
    file, *keys = place
    change(spec / str(file), *keys, to=value)
    assert run("check", spec) == 1
    assert capsys.readouterr() == ("", line + "\n")


@pytest.mark.parametrize("command", ["gen", "check", "coverage"])
def test_no_command_goes_on_with_a_wrong_spec(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = small_spec(tmp_path)
    change(spec / "pin.json", "date", to="today")
    assert run(command, spec) == 1
    assert capsys.readouterr() == ("", "in spec/pin.json: unknown key 'date'\n")
    assert not (tmp_path / "generated").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        (
            "fields/count.json",
            '"tag": {',
            '"add_special": {',
            "in spec/fields/count.json: the key 'add_special' stands twice in one object",
        ),
        (
            "upstream/metrics.json",
            '"prefix"',
            '"metrics": [], "prefix"',
            "in spec/upstream/metrics.json: the key 'metrics' stands twice in one object",
        ),
        (
            "captures/completion.json",
            '"setup"',
            '"captures": [], "setup"',
            "in spec/captures/completion.json: the key 'captures' stands twice in one object",
        ),
        (
            "errors.json",
            '"kinds": {',
            '"kinds": {,',
            "in spec/errors.json: is not JSON: Expecting property name enclosed in double quotes:"
            " line 2 column 13 (char 14)",
        ),
        (
            "pin.json",
            '"build": 7,',
            '"build": NaN,',
            "in spec/pin.json: is not JSON: there is no NaN",
        ),
    ],
)
def test_a_file_that_is_not_proper_json(
    file: str, old: str, new: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = small_spec(tmp_path)
    text = (spec / file).read_text()
    assert old in text
    (spec / file).write_text(text.replace(old, new, 1))
    assert run("check", spec) == 1
    assert capsys.readouterr() == ("", line + "\n")


@pytest.mark.parametrize(
    "file",
    ["pin.json", "routes.json", "fields/completion.json", "upstream/fields.json"],
)
def test_a_file_that_is_not_there(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = small_spec(tmp_path)
    (spec / file).unlink()
    assert run("check", spec) == 1
    line = f"in spec/{file}: can't be read: No such file or directory\n"
    assert capsys.readouterr() == ("", line)


def test_all_problems_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = small_spec(tmp_path)
    change(spec / "pin.json", "build", to="7")
    change(spec / "routes.json", "routes", 3, "instead", to=GONE)
    change(spec / "routes.json", "routes", 3, "path", to="cache")
    change(spec / "fields/count.json", "properties", "tag", "x-llama", "wire", to="text")
    (spec / "metrics.json").unlink()
    assert run("check", spec) == 1
    assert capsys.readouterr().err.splitlines() == [
        "in spec/pin.json: build: '7' is not of type 'integer'",
        "in spec/routes.json: DELETE cache: 'instead' is a required property",
        "in spec/routes.json: DELETE cache: path: 'cache' does not match '^/'",
        "in spec/metrics.json: can't be read: No such file or directory",
        "in spec/fields/count.json: tag: x-llama.wire: 'text' is not one of ['uint16', 'int32',"
        " 'uint32', 'int64', 'float32', 'bool', 'string', 'json', 'custom', 'nested']",
    ]
