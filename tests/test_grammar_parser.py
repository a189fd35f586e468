"""GBNF read as llama.cpp reads it: the same rules, or the same refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.grammar import Element, GrammarError, Kind, parse_grammar
from tests.sampling_cases import Letters

# What llama.cpp's own parser made of each text: rules, or what it logged (null: refused later).
RECORDED = json.loads((Path(__file__).parent / "data/grammar/parsed.json").read_text())
WORDS = Letters(b"<eos>", b"<", b"a", b">", b"b")


def refusal(text: str) -> str:
    with pytest.raises(GrammarError) as error:
        parse_grammar(text, None)
    assert str(error.value) == "failed to parse grammar"
    return error.value.detail


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["text"][:40])
def test_same_as_the_reference(case: dict[str, Any]) -> None:
    if "rules" in case:
        rules = parse_grammar(case["text"], None).rules
        assert [[list(element) for element in rule] for rule in rules] == case["rules"]
    elif case["refused"] is None:
        refusal(case["text"])
    else:
        assert refusal(case["text"]) == case["refused"]


def test_what_a_grammar_is() -> None:
    grammar = parse_grammar('item ::= [a-z^] root\nroot ::= "é"? item', None)
    assert grammar.names == ("item", "root", "root_2")
    assert grammar.root == 1
    assert grammar.rules[0] == (
        Element(Kind.CHAR, ord("a")),
        Element(Kind.CHAR_UPPER, ord("z")),
        Element(Kind.CHAR_ALT, ord("^")),
        Element(Kind.RULE, 1),
        Element(Kind.END),
    )
    assert grammar.rules[2] == (Element(Kind.CHAR, 0xE9), Element(Kind.ALT), Element(Kind.END))


def test_refusals_of_whole_grammars() -> None:
    assert refusal(" \n# nothing") == "the grammar has no rules"
    assert refusal('a ::= "1"') == "grammar does not contain a 'root' symbol"
    assert refusal('root ::= "1" a\na ::= root | a "2"') == (
        "unsupported grammar, left recursion detected for nonterminal at index 1 (a)"
    )


def test_fewer_than_the_least_is_refused() -> None:
    """The reference never comes back from this one."""
    assert refusal('root ::= "a"{3,2}') == "at most 2 repetitions is less than at least 3"


def test_text_ends_at_a_nul() -> None:
    assert parse_grammar('root ::= "a"\0)', None) == parse_grammar('root ::= "a"', None)


def test_tokens_by_name() -> None:
    class OneToken(Letters):
        def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
            if parse_special and text.encode() in self.texts:
                return [self.texts.index(text.encode())]
            return super().encode(text, add_special=add_special, parse_special=parse_special)

    vocab = OneToken(*WORDS.texts)
    assert parse_grammar("root ::= !<eos>", vocab).rules[0][0] == Element(Kind.TOKEN_NOT, 0)
    with pytest.raises(GrammarError) as error:
        parse_grammar("root ::= <ab>", vocab)
    assert error.value.detail == "invalid token '<ab>'"
    assert refusal("root ::= <eos>") == "no vocab to parse token at <eos>"


def test_nesting_has_no_limit() -> None:
    deep = 20000
    grammar = parse_grammar("root ::= " + "(" * deep + '"x"' + ")" * deep, None)
    assert len(grammar.rules) == deep + 1
