"""Spaces are tidied in decoded text as `llama_detokenize` tidies them with GPT-2's vocabulary."""

import pytest

from engine.tokenizer.clean import clean_spaces


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            b"it 's I 'm we 're they 've don 't he 'd we 'll",
            b"it's I'm we're they've don 't he 'd we 'll",
        ),
        (b" . a ' b ' ' c ?  ! , 're '", b". a'b'' c? !,'re '"),
        (b"", b""),
    ],
)
def test_clean_spaces(text: bytes, cleaned: bytes) -> None:
    assert clean_spaces(text) == cleaned
