"""Which tokens a grammar allows, step by step, as llama.cpp's grammar sampler has it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.grammar import Matcher, parse_grammar
from engine.grammar.utf8 import WHOLE, Partial, completions, decode
from tests.made_models import byte_level
from tests.sampling_cases import Letters

# Random walks over the made model's vocabulary: how many tokens llama.cpp allowed, a hash of
# their ids, and the one that was taken; "stuck" where it then found no way on.
RECORDED = json.loads((Path(__file__).parent / "data/grammar/masks.json").read_text())


class Made(Letters):
    """The made model's tokens; three are special, of which two end a text."""

    def is_eog(self, token: int) -> bool:
        return token in (0, 2)


@cache
def made() -> Made:
    special = [text.encode() for text in byte_level().tokens[:3]]
    merges = [b"th", b"the", b"in", b"an", b" t", b" the"]
    return Made(*special, *(bytes([byte]) for byte in range(256)), *merges)


def matcher(grammar: str) -> Matcher:
    vocab = made()
    return Matcher(parse_grammar(grammar, vocab), vocab, len(vocab.texts))


def fnv(ids: list[int]) -> str:
    value = 1469598103934665603
    for token in ids:
        value = ((value ^ token) * 1099511628211) % 2**64
    return str(value)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["grammar"][:40])
def test_same_masks_as_the_reference(case: dict[str, Any]) -> None:
    for walk in case["walks"]:
        text = matcher(case["grammar"])
        for number, step in enumerate(walk):
            if step == "stuck":
                continue
            count, digest, token = step
            mask = text.mask()
            allowed = np.flatnonzero(mask).tolist()
            assert (len(allowed), fnv(allowed)) == (count, digest if count else fnv([]))
            assert [text.allows(token) for token in range(len(mask))] == mask.tolist()
            if walk[number + 1 : number + 2] == ["stuck"]:
                with pytest.raises(ValueError, match="Unexpected empty grammar stack after"):
                    text.accept(token)
            elif token >= 0:
                text.accept(token)


def test_the_end() -> None:
    text = matcher('root ::= "ab" | "a"')
    assert np.flatnonzero(text.mask()).tolist() == [3 + ord("a")]
    text.accept(3 + ord("a"))
    assert np.flatnonzero(text.mask()).tolist() == [0, 2, 3 + ord("b")]
    text.accept(0)
    text.accept(3 + ord("b"))
    assert np.flatnonzero(text.mask()).tolist() == [0, 2]
    with pytest.raises(ValueError) as error:
        text.accept(3 + ord("c"))
    assert str(error.value) == "Unexpected empty grammar stack after accepting piece: c (102)"


def test_characters_over_several_tokens() -> None:
    text = matcher('root ::= [à-ï] "!"')
    first, *rest = "é".encode()
    assert np.flatnonzero(text.mask()).tolist() == [3 + first]
    text.accept(3 + first)
    assert np.flatnonzero(text.mask()).tolist() == [3 + byte for byte in range(0xA0, 0xB0)]
    text.accept(3 + rest[0])
    assert np.flatnonzero(text.mask()).tolist() == [3 + ord("!")]


def test_decoding() -> None:
    assert decode("aé日".encode(), WHOLE) == ((0x61, 0xE9, 0x65E5), WHOLE)
    assert decode(b"a\xe6\x97", WHOLE) == ((0x61,), Partial(0x197, 1))
    assert decode(b"\xa5b", Partial(0x197, 1)) == ((0x65E5, 0x62), WHOLE)
    assert decode(b"b", Partial(0x197, 1)) == ((), Partial(0, -1))
    assert decode(b"a\xa5", WHOLE) == ((), Partial(0, -1))
    assert decode(b"a\0b", WHOLE) == ((0x61,), WHOLE)


def test_what_cut_off_characters_can_become() -> None:
    assert completions(Partial(0x197, 1)) == (0x65C0, 0x65FF)
    assert completions(Partial(0, 2)) == (0x800, 0xFFF)
    assert completions(Partial(0, 3)) == (0x10000, 0x3FFFF)
    assert completions(Partial(1, 1)) is None
    assert completions(Partial(0, -1)) is None


def test_nesting_has_no_limit() -> None:
    text = matcher('root ::= "(" root ")" | "x"')
    for _ in range(3000):
        text.accept(3 + ord("("))
    assert np.flatnonzero(text.mask()).tolist() == [3 + ord("("), 3 + ord("x")]
    text.accept(3 + ord("x"))
    for _ in range(3000):
        text.accept(3 + ord(")"))
    assert np.flatnonzero(text.mask()).tolist() == [0, 2]
