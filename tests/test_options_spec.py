"""spec/options.json: what its meta-schema and the loader refuse, and what is made of an entry."""

from pathlib import Path
from typing import Any

import pytest

from codegen.files import read_json, validate
from codegen.options import load_options, outputs, settings
from codegen.problems import Problems

SPEC = Path(__file__).parent.parent / "spec"
SCHEMA = read_json(SPEC / "schema/options.schema.json", Problems())

CTX_SIZE = {
    "section": "common",
    "spellings": ["-c", "--ctx-size"],
    "env": "LLAMA_ARG_CTX_SIZE",
    "value": ["N"],
    "type": "int32",
    "reject": [0, None],
    "setting": "n_ctx",
    "default": 0,
    "description": "Context size.",
    "status": "supported",
}
LORA = {
    "section": "common",
    "spellings": ["--lora"],
    "value": ["FNAME"],
    "type": "strings",
    "split": "csv",
    "default": [],
    "description": f"{'Adapters to load. ' * 5}One more.",
    "status": "deferred",
    "reason": "adapters aren't built yet",
}


def test_the_spec_is_valid() -> None:
    problems = Problems()
    data = read_json(SPEC / "options.json", problems)
    assert validate(data, SCHEMA, problems), problems.found
    load_options(data, problems)
    assert problems.found == []


@pytest.mark.parametrize(
    "entry",
    [
        {**CTX_SIZE, "surprise": 1},
        {**CTX_SIZE, "type": "int16"},
        {**CTX_SIZE, "status": "inert"},
        {**CTX_SIZE, "reason": "it is supported"},
        {**CTX_SIZE, "description": "No full stop"},
        {**CTX_SIZE, "negative": ["--no-ctx-size"]},
        {**CTX_SIZE, "choices": ["1"]},
        {k: v for k, v in CTX_SIZE.items() if k != "setting"},
        {k: v for k, v in CTX_SIZE.items() if k != "value"},
        {k: v for k, v in CTX_SIZE.items() if k != "default"},
        {k: v for k, v in LORA.items() if k != "split"},
        {k: v for k, v in LORA.items() if k != "reason"},
        {**LORA, "reason": "a sentence."},
    ],
)
def test_the_meta_schema_refuses(entry: dict[str, Any]) -> None:
    assert validate({"options": [CTX_SIZE, LORA], "own": []}, SCHEMA, Problems())
    assert not validate({"options": [entry], "own": []}, SCHEMA, Problems())


def test_every_problem_is_told_with_its_place() -> None:
    problems = Problems()
    choice = {
        **CTX_SIZE,
        "spellings": ["--kind"],
        "env": "LLAMA_ARG_CTX_SIZE",
        "type": "enum",
        "choices": ["a", "b"],
        "default": "c",
    }
    again = {**CTX_SIZE, "env": "X", "default": 1}
    load_options({"options": [CTX_SIZE, again, choice], "own": []}, problems)
    assert problems.found == [
        "in spec/options.json: -c stands twice, also for -c",
        "in spec/options.json: --ctx-size stands twice, also for -c",
        "in spec/options.json: LLAMA_ARG_CTX_SIZE stands twice, also for -c",
        "in spec/options.json: --kind: the default 'c' is none of the choices, "
        "and nothing is shown",
        "in spec/options.json: -c: says that n_ctx is 1 by default, but -c says 0",
        "in spec/options.json: --kind: feeds n_ctx with str, but -c with int",
        "in spec/options.json: --kind: says that n_ctx is 'c' by default, but -c says 0",
    ]


def test_what_is_generated() -> None:
    ((name, text),) = outputs(load_options({"options": [CTX_SIZE], "own": [LORA]}, Problems()))
    assert name == "options.py"
    before, _, after = text.partition('names of upstream\'s common_params."""\n\n')
    assert before and after.startswith(
        "    n_ctx: int = 0\n"
        '    """Context size. (-c, --ctx-size)"""\n'
        "    given: frozenset[str] = frozenset()\n"
    )
    assert text.endswith(
        "OPTIONS: tuple[Option, ...] = (\n"
        "    Option(\n"
        '        section="common",\n'
        '        spellings=("-c", "--ctx-size"),\n'
        '        env="LLAMA_ARG_CTX_SIZE",\n'
        '        value=("N",),\n'
        "        read=values.int32(reject=(0, None)),\n"
        '        setting="n_ctx",\n'
        "        default=0,\n"
        '        description="Context size.",\n'
        "    ),\n"
        "    Option(\n"
        '        section="own",\n'
        '        spellings=("--lora",),\n'
        '        value=("FNAME",),\n'
        '        read=values.strings(split="csv"),\n'
        "        default=(),\n"
        "        description=(\n"
        f"            \"{'Adapters to load. ' * 4}Adapters to \"\n"
        '            "load. One more."\n'
        "        ),\n"
        '        status="deferred",\n'
        '        reason="adapters aren\'t built yet",\n'
        "    ),\n"
        ")\n"
    )


def test_one_setting_may_have_several_options() -> None:
    flag = {
        **CTX_SIZE,
        "spellings": ["--all"],
        "env": "ALL",
        "type": "flag",
        "sets": 9,
        "description": "The most.",
    }
    del flag["value"], flag["reject"]
    problems = Problems()
    (setting,) = settings(load_options({"options": [flag, CTX_SIZE], "own": []}, problems))
    assert problems.found == []
    assert (setting.name, setting.annotation) == ("n_ctx", "int")
    assert setting.documentation == "Context size. (--all, -c, --ctx-size)"
