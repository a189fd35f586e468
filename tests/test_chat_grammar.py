"""The grammar that a chat parser becomes, and that it lets say what the parser takes."""

import itertools

import pytest

from engine.grammar import Matcher, parse_grammar
from engine.grammar.rules import Grammar
from handlers.chat_grammar import grammar_of
from handlers.chat_peg import (
    Chars,
    Parser,
    Through,
    Unasked,
    absent,
    ahead,
    choice,
    content,
    end,
    eps,
    lit,
    optional,
    reasoning,
    repeat,
    rule,
    seq,
    space,
    until,
)
from handlers.delimiters import State, states
from handlers.json_text import JsonBySchema
from tests.sampling_cases import Letters

SCHEMA = {"enum": [1, 2]}
ALPHABET = Letters(b"<eos>", *(bytes([byte]) for byte in b"ab<>/"))
RULES = [
    (seq("a", eps, optional("b"), end), '"a" "b"?'),
    (seq("a", choice("a", seq("b", "c")), "d"), '"a" ("a" | "b" "c") "d"'),
    (seq(optional(choice("a", "b")), repeat("a"), repeat("b", least=1)), '("a" | "b")? "a"* "b"+'),
    (seq(reasoning("a"), content("b", "c"), space), '"a" ("b" "c") space'),
    (seq(ahead("a"), Unasked(lit("c")), choice("b", absent("a"))), '("b" | )'),
    (seq(Chars("[a-c]"), rule("more", "a", "b"), rule("more", "a", "b")), "[a-c]+ more more"),
    (content(until()), ".*"),
]


@pytest.mark.parametrize(("parser", "root"), RULES, ids=[root for _, root in RULES])
def test_rules(parser: Parser, root: str) -> None:
    lines = grammar_of(parser, SCHEMA).splitlines()
    assert [line for line in lines if line.startswith("root")] == [f"root ::= {root}"]


def test_the_json_is_the_schemas() -> None:
    parser = seq("<", rule("answer", JsonBySchema("schema", SCHEMA)))
    lines = grammar_of(parser, SCHEMA).splitlines()
    assert [line for line in lines if not line.startswith(("json-", "space"))] == [
        "answer ::= schema",
        'root ::= "<" answer',
        'schema ::= ("1" | "2")',
    ]


def test_what_has_no_grammar() -> None:
    with pytest.raises(ValueError, match=r'^JSON schema .*failed:\nUnrecognized schema: \{"type'):
        grammar_of(JsonBySchema("schema", {"type": "foo"}), {"type": "foo"})


def test_states_of_several_delimiters() -> None:
    assert list(states(("ab", "b>"))) == [
        State(0, [], [(1, ["a"]), (3, ["b"])]),
        State(1, ["b"], [(1, ["a"])]),
        State(3, [">"], [(1, ["a"]), (3, ["b"])]),
    ]


@pytest.mark.parametrize("delimiters", [("</a>",), ("aab",), ("</a>", "<b>"), ("ab", "ba")])
def test_a_text_without_delimiters(delimiters: tuple[str, ...]) -> None:
    rules = parse_grammar(grammar_of(until(*delimiters, number=3), SCHEMA), ALPHABET)
    for text in _texts(6):
        assert _allows(rules, text) == all(word not in text for word in delimiters), text


@pytest.mark.parametrize("delimiter", ["</a>", "aab", "a"])
def test_a_text_through_a_delimiter(delimiter: str) -> None:
    rules = parse_grammar(grammar_of(Through(lit(""), delimiter, 3), SCHEMA), ALPHABET)
    for text in _texts(6):
        first = text.find(delimiter)
        whole = first >= 0 and first + len(delimiter) == len(text)
        assert _allows(rules, text) == (whole or first < 0), text


def _texts(longest: int) -> list[str]:
    """One in 37 of the texts over the alphabet."""
    letters = [text.decode() for text in ALPHABET.texts[1:]]
    all_texts = itertools.chain.from_iterable(
        itertools.product(letters, repeat=length) for length in range(longest + 1)
    )
    return ["".join(text) for text in all_texts][::37]


def _allows(rules: Grammar, text: str) -> bool:
    """Whether it may be said as far as it goes."""
    matcher = Matcher(rules, ALPHABET, len(ALPHABET.texts))
    for letter in text:
        token = ALPHABET.texts.index(letter.encode())
        if not matcher.allows(token):
            return False
        matcher.accept(token)
    return True
