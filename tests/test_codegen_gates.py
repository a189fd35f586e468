"""The spec against the extracted facts: whatever is missing, extra or different turns check red."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codegen.gates import check_decisions
from codegen.load import load
from codegen.problems import Problems
from tests.codegen_specs import GONE, change, run, small_spec

FIELDS = "in spec/fields/completion.json: "
FIELD = ("fields/completion.json", "properties")
WRONG: list[tuple[Sequence[str | int], Any, list[str]]] = [
    # The spec says something else than the facts.
    (
        ("routes.json", "routes", 1, "public"),
        True,
        ["in spec/routes.json: POST /completion: public is True, upstream's False"],
    ),
    (
        ("routes.json", "routes", 3, "modes"),
        ["router"],
        ["in spec/routes.json: DELETE /cache/:id: router only is True, upstream's False"],
    ),
    (
        ("routes.json", "routes", 3, "path"),
        "/caches/:id",
        [
            "in spec/routes.json: route 'DELETE /cache/:id' of the pinned build has no decision:"
            " add its status",
            "in spec/routes.json: route 'DELETE /caches/:id' is not in the pinned build",
        ],
    ),
    (
        (*FIELD, "stream"),
        GONE,
        [f"{FIELDS}field 'stream' of the pinned build has no decision: add its status"],
    ),
    (
        (*FIELD, "stream_options", "properties"),
        {},
        [
            f"{FIELDS}stream_options: field 'include_usage' of the pinned build has no decision:"
            " add its status"
        ],
    ),
    (
        (*FIELD, "n_predict", "x-llama", "aliases"),
        ["max_tokens", "max_completion_tokens"],
        [
            f"{FIELDS}n_predict: aliases is ['max_tokens', 'max_completion_tokens'], upstream's"
            " ['max_completion_tokens', 'max_tokens']"
        ],
    ),
    (
        (*FIELD, "n_predict", "x-llama", "wire"),
        "int64",
        [f"{FIELDS}n_predict: wire is 'int64', upstream's 'int32'"],
    ),
    (
        (*FIELD, "stream", "x-llama", "wire"),
        "custom",
        [f"{FIELDS}stream: wire is 'custom', upstream's 'bool'"],
    ),
    (
        (*FIELD, "n_predict", "x-llama", "limits", "reject", 0),
        0,
        [f"{FIELDS}n_predict: min is 0, upstream's -1"],
    ),
    (
        (*FIELD, "n_predict", "x-llama", "limits", "reject", 1),
        "INT64_MAX",
        [f"{FIELDS}n_predict: max is 'INT64_MAX', upstream's INT32_MAX"],
    ),
    (
        (*FIELD, "temperature", "x-llama", "limits"),
        {"reject": [0, "INFINITY"]},
        [f"{FIELDS}temperature: kind of limits is 'reject', upstream's 'clamp'"],
    ),
    (
        (*FIELD, "seed", "x-llama", "limits"),
        {"clamp": [0, 1]},
        [f"{FIELDS}seed: kind of limits is 'clamp', upstream's None"],
    ),
    (
        (*FIELD, "stream", "x-llama", "default"),
        True,
        [f"{FIELDS}stream: default is True, upstream's False"],
    ),
    (
        (*FIELD, "n_predict", "x-llama", "default"),
        -1,
        [f"{FIELDS}n_predict: default is -1, upstream's {{'server': 'n_predict'}}"],
    ),
    (
        (*FIELD, "stop", "x-llama", "compiled_out"),
        True,
        [f"{FIELDS}stop: compiled_out is True, upstream's False"],
    ),
    (
        ("options.json", "options", 0, "default"),
        5,
        [
            f"{FIELDS}n_predict: default of --predict is 5, upstream's -1",
            "in spec/options.json: --predict: default is 5, upstream's -1",
        ],
    ),
    (
        ("options.json", "options", 1, "spellings"),
        ["--figures"],
        [
            "in spec/options.json: option '--metrics' of the pinned build has no decision:"
            " add its status",
            "in spec/options.json: option '--figures' is not in the pinned build",
            "option:--figures is supported, but no recorded answer shows it: record one, or say in"
            " spec/exceptions.json why none can",
        ],
    ),
    (
        ("options.json", "options", 1, "negative"),
        ["--without-metrics"],
        [
            "in spec/options.json: --metrics: negative is ['--without-metrics'], upstream's"
            " ['--no-metrics']"
        ],
    ),
    (
        ("options.json", "options", 0, "env"),
        "LLAMA_ARG_PREDICT",
        [
            "in spec/options.json: --predict: env is 'LLAMA_ARG_PREDICT', upstream's"
            " 'LLAMA_ARG_N_PREDICT'"
        ],
    ),
    (
        ("options.json", "options", 0, "value"),
        ["TOKENS"],
        ["in spec/options.json: --predict: value is ['TOKENS'], upstream's ['N']"],
    ),
    (
        ("options.json", "options", 0, "section"),
        "server",
        ["in spec/options.json: --predict: section is 'server', upstream's 'common'"],
    ),
    (
        ("errors.json", "kinds", "not_supported", "code"),
        500,
        ["in spec/errors.json: not_supported: code is 500, upstream's 501"],
    ),
    (
        ("errors.json", "kinds", "not_supported", "type"),
        "not_supported",
        [
            "in spec/errors.json: not_supported: type is 'not_supported', upstream's"
            " 'not_supported_error'"
        ],
    ),
    (
        ("errors.json", "kinds", "loading", "shape"),
        "handler",
        ["in spec/errors.json: error kind 'loading' is not in the pinned build"],
    ),
    (
        ("metrics.json", "prefix"),
        "tiny:",
        ["in spec/metrics.json: prefix is 'tiny:', upstream's 'small:'"],
    ),
    (
        ("metrics.json", "series", 0, "kind"),
        "gauge",
        ["in spec/metrics.json: tokens_predicted_total: kind is 'gauge', upstream's 'counter'"],
    ),
    (
        ("metrics.json", "series", 0, "name"),
        "tokens_total",
        [
            "in spec/metrics.json: series 'tokens_predicted_total' of the pinned build has no"
            " decision: add its status",
            "in spec/metrics.json: series 'tokens_total' is not in the pinned build",
        ],
    ),
    # A newer build has something else than the spec.
    (
        ("upstream/routes.json", "routes", 2, "path"),
        "/v2/count",
        [
            "in spec/routes.json: route 'POST /v2/count' of the pinned build has no decision:"
            " add its status",
            "in spec/routes.json: route 'POST /count' is not in the pinned build",
        ],
    ),
    (
        ("upstream/fields.json", "fields", 4, "default", "value"),
        9,
        [
            f"{FIELDS}seed: default is 7, upstream's 9",
            "in spec/exceptions.json: there is no such problem any more, take it out:"
            f" {FIELDS}seed: default is 7, upstream's 8",
        ],
    ),
    # The facts were taken over, and nobody has decided what their number means.
    (
        ("upstream/build.json", "build"),
        8,
        ["in spec/pin.json: build of the recorded answers is 7, upstream's 8"],
    ),
    (
        ("upstream/build.json", "counts", "routes.json", "total"),
        5,
        ["in spec/pin.json: 4 routes.json total were decided, there are 5"],
    ),
    (
        ("upstream/build.json", "counts", "options.json"),
        GONE,
        ["in spec/pin.json: 2 options.json of_server were decided, there are None"],
    ),
    # An exception is for one problem, and goes when that goes.
    (("exceptions.json", "exceptions"), [], [f"{FIELDS}seed: default is 7, upstream's 8"]),
    (
        (*FIELD, "seed", "x-llama", "default"),
        8,
        [
            "in spec/exceptions.json: there is no such problem any more, take it out:"
            f" {FIELDS}seed: default is 7, upstream's 8"
        ],
    ),
]


def found(spec: Path) -> list[str]:
    problems = Problems()
    check_decisions(load(spec), spec, problems)
    return problems.found


def test_the_small_spec_agrees_with_its_facts(tmp_path: Path) -> None:
    assert found(small_spec(tmp_path)) == []


def test_check_is_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = small_spec(tmp_path)
    change(spec / "upstream/metrics.json", "prefix", to="tiny:")
    assert run("gen", spec) == 0
    capsys.readouterr()
    assert run("check", spec) == 1
    line = "in spec/metrics.json: prefix is 'small:', upstream's 'tiny:'\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(("place", "value", "lines"), WRONG, ids=[w[2][0] for w in WRONG])
def test_a_difference_is_named(
    place: Sequence[str | int], value: Any, lines: list[str], tmp_path: Path
) -> None:
    spec = small_spec(tmp_path)
    file, *keys = place
    change(spec / str(file), *keys, to=value)
    assert found(spec) == lines


@pytest.mark.parametrize(
    ("file", "key", "line"),
    [
        (
            "fields/completion.json",
            "properties",
            f"{FIELDS}order differs from upstream's, first at field 'stream'",
        ),
        (
            "options.json",
            "options",
            "in spec/options.json: order differs from upstream's, first at option '-n --predict'",
        ),
        (
            "metrics.json",
            "series",
            "in spec/metrics.json: order differs from upstream's, first at series"
            " 'tokens_predicted_total'",
        ),
    ],
)
def test_order_is_upstreams(file: str, key: str, line: str, tmp_path: Path) -> None:
    spec = small_spec(tmp_path)
    entries = json.loads((spec / file).read_text())[key]
    turned = dict(reversed(entries.items())) if isinstance(entries, dict) else entries[::-1]
    change(spec / file, key, to=turned)
    assert found(spec) == [line]
