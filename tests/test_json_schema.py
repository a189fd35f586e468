"""JSON Schemas become the grammars that llama-server makes of them, or its refusals."""

import json
import logging
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engine.grammar import GrammarError, parse_grammar
from engine.grammar.automaton import Automaton, State
from handlers.json_schema import schema_to_grammar
from tests.record_json_schemas import any_schema

RECORDED = json.loads((Path(__file__).parent / "data/grammar/schemas.json").read_text())


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: json.dumps(case["schema"])[:60])
def test_same_grammar_or_refusal(case: dict[str, Any]) -> None:
    assert converted(case["schema"]) == {k: v for k, v in case.items() if k != "schema"}


def converted(schema: Any) -> dict[str, str]:
    """What a request with this schema is answered."""
    try:
        grammar = schema_to_grammar(schema)
        parse_grammar(grammar, None)
    except GrammarError as error:
        return {"error": f"Failed to initialize samplers: {error}"}
    except ValueError as error:
        return {"error": f"Field 'json_schema': \"json_schema\": {error}"}
    # Characters cut in two, which the reference does to some, show as replacements.
    return {"grammar": grammar.encode(errors="surrogateescape").decode(errors="replace")}


def walk(grammar: str, chance: random.Random) -> str:
    """A text of the grammar: at random, but always on a way to an end."""
    automaton = Automaton(parse_grammar(grammar, None))
    candidates = [*map(chr, range(32, 127)), "é", "\n"]
    text, state = "", automaton.start
    while True:
        ways = [(char, automaton.step(state, ord(char))) for char in candidates]
        ways = [(char, reached) for char, reached in ways if reached]
        if state.may_end and (not ways or len(text) > 40 or chance.random() < 0.3):
            return text
        # Past some length, the way with the shortest rest: closers first, few open stacks.
        if len(text) > 60:
            ways = [min(ways, key=lambda way: (distance(automaton, way[1]), way[0]))]
        char, state = chance.choice(ways)
        text += char


def distance(automaton: Automaton, state: State) -> int:
    """How many positions the shallowest stack of a state has."""

    def depth(stack: int) -> int:
        count = 0
        while stack:
            stack, count = automaton._stacks[stack][0], count + 1
        return count

    return min(map(depth, state.stacks))


@pytest.mark.parametrize("seed", range(60))
def test_what_the_grammar_allows_is_valid(seed: int) -> None:
    chance = random.Random(seed)
    schema = any_schema(chance, 2)
    if "error" in converted(schema):
        pytest.skip("the converter cuts up names beyond ASCII, in the reference too")
    if re.search(r'"integer", "maximum": -\d+}', json.dumps(schema)):
        pytest.skip("leading zeros, as in -012, get past a negative maximum, in the reference too")
    grammar = schema_to_grammar(schema)
    for _ in range(3):
        text = walk(grammar, chance)
        jsonschema.validate(json.loads(text), schema)


def test_patterns_without_a_grammar_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        grammar = schema_to_grammar({"type": "string", "pattern": r"^\d$"})
    assert grammar.startswith("char ::= ")
    assert caplog.messages == [
        r"JSON schema conversion was incomplete: pattern ^\d$ is not supported "
        r"(unsupported escape: \d), accepting any string"
    ]


def test_schemas_that_the_reference_does_not_survive() -> None:
    itself = {"allOf": [{"$ref": "#/x"}], "x": {"$ref": "#/x"}}
    assert converted(itself) == {
        "error": "Field 'json_schema': \"json_schema\": allOf contains itself: #/x"
    }
    assert converted({"type": "string", "minLength": 4, "maxLength": 2}) == {
        "error": "Failed to initialize samplers: failed to parse grammar"
    }
    deep: Any = {"type": "string"}
    for _ in range(2000):
        deep = {"items": deep}
    assert converted(deep) == {
        "error": "Field 'json_schema': \"json_schema\": the schema is nested too deeply"
    }


def test_many_properties() -> None:
    names = {f"p{number}": {"type": "integer"} for number in range(3000)}
    grammar = schema_to_grammar({"properties": names})
    assert grammar.count("-rest ::= ") == 2999
