"""What a chat's messages begin with, and where a prompt has it."""

import pytest

from handlers.chat_template import ChatTemplate
from handlers.message_starts import delimiters, user_starts
from tests.tiny_llama import ByteVocabulary

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ENDS_FIRST = "{% for m in messages %}[end][{{ m.role }}]{{ m.content }}{% endfor %}"
NO_EMPTY_CHAT = (
    "{% if not messages %}{{ raise_exception('none') }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
)
FAILS = "{{ raise_exception('no') }}"


@pytest.mark.parametrize(
    ("source", "assistant", "user"),
    [
        (CHATML, "<|im_start|>assistant", "<|im_start|>user"),
        (ENDS_FIRST, "[end][assistant]", "[user]"),
        (NO_EMPTY_CHAT, "<assistant>", "<user>"),
        (FAILS, "", ""),
    ],
)
def test_templates_tell_what_messages_begin_with(source: str, assistant: str, user: str) -> None:
    found = dict(delimiters(ChatTemplate(source, bos="", eos="")))
    assert (found.get("assistant", ""), found.get("user", "")) == (assistant, user)


def test_users_messages_are_found_in_the_prompt() -> None:
    text = "<user>one<bot>two<user>three"
    given = [
        {"role": "assistant", "delimiter": "<bot>"},
        {"role": "user", "delimiter": "<user>"},
        {"role": "system", "delimiter": "<"},
        "not one",
    ]
    assert user_starts(ByteVocabulary(), list(text.encode()), given) == (0, 17)
    assert user_starts(ByteVocabulary(), list(text.encode()), given[:1]) == ()
    assert user_starts(ByteVocabulary(), list(text.encode()), "<user>") == ()


def test_the_first_delimiter_that_fits_says_whose_message_it_is() -> None:
    given = [
        {"role": "tool", "delimiter": "<user>result"},
        {"role": "user", "delimiter": "<user>"},
    ]
    text = "<user>result <user>question"
    assert user_starts(ByteVocabulary(), list(text.encode()), given) == (13,)
