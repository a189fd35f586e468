"""Where messages of a chat begin: what its template begins them with, and where a prompt has it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from engine.vocabulary import Vocabulary
from handlers.chat_analysis import segments, split
from handlers.chat_peg import SPACE
from handlers.chat_template import ChatTemplate, TemplateFailed

_USER, _OTHER_USER = "U_USER_MSG Hello END_U", "V_USER_MSG Hello END_V"
_ANSWER = "A_ASST_MSG I can help END_A"


class Delimiter(NamedTuple):
    """What a message of a role begins with."""

    role: str
    text: str


@lru_cache(maxsize=8)
def delimiters(template: ChatTemplate) -> tuple[Delimiter, ...]:
    """What answers and users' messages begin with, as far as llama-server's analysis tells."""
    made = (Delimiter("assistant", _answer_start(template)), Delimiter("user", _start(template)))
    return tuple(one for one in made if one.text)


def user_starts(
    vocabulary: Vocabulary, tokens: Sequence[int], delimiters: object
) -> tuple[int, ...]:
    """Where in `tokens` users' messages begin, of a body's `message_delimiters`."""
    marks = [
        (_text(one, "role"), vocabulary.encode(
            _text(one, "delimiter"), add_special=False, parse_special=True
        ))
        for one in (delimiters if isinstance(delimiters, list) else [])
        if isinstance(one, dict)
    ]  # fmt: skip
    if not any(role == "user" for role, _ in marks):
        return ()
    tokens = list(tokens)
    roles = [
        next((role for role, mark in marks if tokens[at : at + len(mark)] == mark), "")
        for at in range(len(tokens))
    ]
    return tuple(at for at, role in enumerate(roles) if role == "user")


def _text(delimiter: Mapping[str, Any], key: str) -> str:
    value = delimiter.get(key)
    return value if isinstance(value, str) else ""


def _answer_start(template: ChatTemplate) -> str:
    user = {"role": "user", "content": _USER}
    added = _added(template, [user], [{"role": "assistant", "content": _ANSWER}])
    return "" if added is None else added.partition(_ANSWER)[0].strip(SPACE)


def _start(template: ChatTemplate) -> str:
    user = {"role": "user", "content": _USER}
    added = _added(template, [], [user])
    if added is None:
        other = {"role": "user", "content": _OTHER_USER}
        added = _added(template, [other, {"role": "assistant", "content": _ANSWER}], [user])
    if added is None:
        return ""
    if _ANSWER in added:
        added = added.partition(_ANSWER)[2]
    found = ""
    marked = False
    for segment in segments(added.partition(_USER)[0]):
        ends = any(word in segment.text.lower() for word in ("end", "close"))
        if not marked and (ends if segment.is_marker else not segment.text.strip(SPACE)):
            continue
        marked = marked or segment.is_marker
        found += segment.text
    return found.strip(SPACE)


def _added(
    template: ChatTemplate, before: list[dict[str, str]], more: list[dict[str, str]]
) -> str | None:
    """What messages add to others; None if the template fails."""
    try:
        texts = [
            template.render(
                messages,
                add_generation_prompt=False,
                extra={"enable_thinking": True},
                trims=False,
            )
            for messages in (before, before + more)
        ]
    except TemplateFailed:
        return None
    return split(*texts).right
