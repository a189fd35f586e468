"""Random grammars: whatever the matcher lets be written, a plain reading of them accepts."""

import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.grammar import GrammarError, Matcher, parse_grammar
from tests.sampling_cases import Letters

ALPHABET = "abcé"
_SYMBOLS = [b"a", b"b", b"c", "é".encode(), "é".encode()[:1], "é".encode()[1:]]
_LONGER = [b"ab", b"ba", b"cc", b"abc", "aé".encode(), "éb".encode(), b"a" + "é".encode()[:1]]
VOCAB = Letters(b"", *_SYMBOLS, *_LONGER)
MOST_TOKENS = 16
WALKS = 4


@dataclass(frozen=True)
class Text:
    characters: str

    def gbnf(self) -> str:
        return f'"{self.characters}"'


@dataclass(frozen=True)
class OneOf:
    characters: str
    negated: bool
    written: str = ""

    def gbnf(self) -> str:
        return f"[{'^' * self.negated}{self.written or self.characters}]"


@dataclass(frozen=True)
class Any:
    def gbnf(self) -> str:
        return "."


@dataclass(frozen=True)
class Call:
    rule: int

    def gbnf(self) -> str:
        return f"r{self.rule}"


@dataclass(frozen=True)
class Sequence:
    parts: tuple["Node", ...]

    def gbnf(self) -> str:
        return " ".join(part.gbnf() for part in self.parts)


@dataclass(frozen=True)
class Either:
    choices: tuple["Node", ...]

    def gbnf(self) -> str:
        return f"({' | '.join(choice.gbnf() for choice in self.choices)})"


@dataclass(frozen=True)
class Repeat:
    part: "Node"
    least: int
    most: int | None

    def gbnf(self) -> str:
        signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
        bounds = f"{{{self.least},{'' if self.most is None else self.most}}}"
        return f"({self.part.gbnf()}){signs.get((self.least, self.most), bounds)}"


Node = Text | OneOf | Any | Call | Sequence | Either | Repeat


def ends(node: Node, rules: list[Node], text: str, start: int) -> frozenset[int]:
    """Every position where a part of `text` that begins at `start` and fits `node` can end."""

    @cache
    def reached(node: Node, at: int) -> frozenset[int]:
        match node:
            case Text(characters):
                return frozenset({at + len(characters)} if text.startswith(characters, at) else ())
            case OneOf(characters, negated, _):
                fits = at < len(text) and (text[at] in characters) != negated
                return frozenset({at + 1} if fits else ())
            case Any():
                return frozenset({at + 1} if at < len(text) else ())
            case Call(rule):
                return reached(rules[rule], at)
            case Either(choices):
                return frozenset().union(*(reached(choice, at) for choice in choices))
            case Sequence(parts):
                here = frozenset({at})
                for part in parts:
                    here = frozenset().union(*(reached(part, place) for place in here))
                return here
            case Repeat(part, least, most):
                here, seen = frozenset({at}), frozenset[int]()
                for _ in range(least):
                    here = frozenset().union(*(reached(part, place) for place in here))
                rounds = len(text) + 1 if most is None else most - least
                for _ in range(rounds):
                    seen |= here
                    here = frozenset().union(*(reached(part, place) for place in here))
                return seen | here

    return reached(node, start)


def characters(least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(ALPHABET, min_size=least, max_size=most)


def nodes(callable_rules: list[int], deepest: int) -> st.SearchStrategy[Node]:
    """Parts of a rule; it begins only with rules behind it, and comes back to the first."""
    leaves: list[st.SearchStrategy[Node]] = [
        characters(1, 3).map(Text),
        st.builds(OneOf, st.sampled_from(["a", "bc", "abé"]), st.booleans()),
        st.builds(OneOf, st.just("abc"), st.booleans(), st.just("a-c")),
        st.builds(lambda *parts: Sequence(parts), characters(1, 1).map(Text), st.just(Call(0))),
        st.just(Any()),
    ]
    if callable_rules:
        leaves.append(st.sampled_from(callable_rules).map(Call))
    leaf = st.one_of(leaves)
    if deepest == 0:
        return leaf
    inner = nodes(callable_rules, deepest - 1)
    bounds = st.sampled_from([(0, 1), (0, None), (1, None), (0, 2), (2, 2), (1, 3), (2, None)])
    return st.one_of(
        leaf,
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Sequence(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Either(tuple(parts))),
        st.tuples(inner, bounds).map(lambda found: Repeat(found[0], *found[1])),
    )


@st.composite
def grammars(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 3))
    rules: list[Node] = []
    for number in range(count):
        parts = st.lists(nodes(list(range(number + 1, count)), 2), min_size=2, max_size=3)
        rules.append(Sequence((*draw(parts), *map(Call, range(number + 1, count)))))
    return rules


def written(rules: list[Node]) -> str:
    lines = [f"r{number} ::= {rule.gbnf()}" for number, rule in enumerate(rules)]
    return "\n".join(["root ::= r0", *lines])


def whole(text: bytes) -> str | None:
    """The text, unless its last character is not complete."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        assert error.reason == "unexpected end of data"
        return None


@settings(max_examples=40, deadline=None)
@given(rules=grammars(), seed=st.integers(0, 2**32 - 1))
def test_what_is_written_fits(rules: list[Node], seed: int) -> None:
    try:
        grammar = parse_grammar(written(rules), None)
    except GrammarError as error:
        # A repetition of what may be empty counts as left recursion.
        assume("left recursion" not in error.detail)
        raise
    choice = random.Random(seed)
    for _ in range(WALKS):
        walk(Matcher(grammar, VOCAB, len(VOCAB.texts)), rules, choice)


def walk(matcher: Matcher, rules: list[Node], choice: random.Random) -> None:
    """Take random tokens to an end; wherever the text could end, the plain reading says so too."""
    text = b""
    for _ in range(MOST_TOKENS):
        mask = matcher.mask()
        allowed = np.flatnonzero(mask).tolist()
        assert allowed == [token for token in range(len(mask)) if matcher.allows(token)]
        so_far = whole(text)
        if so_far is None:
            # As in llama.cpp a text could end inside a character; what it ends as is no text.
            allowed = [token for token in allowed if token != 0]
        else:
            assert (0 in allowed) == (len(so_far) in ends(Call(0), rules, so_far, 0)), so_far
        if not allowed:
            break
        token = choice.choice(allowed)
        if token == 0:
            break
        matcher.accept(token)
        text += VOCAB.texts[token]
