"""Finds out how a template marks reasoning and content, by rendering small chats and comparing.

The comparisons are those of llama.cpp's `chat-diff-analyzer.cpp`, as far as they concern
reasoning and content; tool calls aren't analysed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handlers.chat_peg import SPACE
from handlers.chat_template import ChatTemplate, TemplateFailed

_USER = "U_USER_MSG Hello END_U"
_ASSISTANT = "A_ASST_MSG I can help END_A"
_THINKING = "REASON_PART I am thinking END_R"
_ANCHOR = 64

_GAP = f"[{SPACE}]*"
_MARKER = r"(?:<[^>]*>|\[[^\]]*\])"
_MARKED = re.compile(r"<[^>]*>|\[[^\]]*\]")

_USER_MESSAGE = {"role": "user", "content": _USER}
_ANSWER = {"role": "assistant", "content": _ASSISTANT}


@dataclass
class Analysis:
    """How a template marks things; an empty text is no mark.

    `mode` is `none`, `tags` or `tools` (reasoning only where tools are called).
    """

    mode: str = "none"
    start: str = ""
    end: str = ""
    content_start: str = ""
    content_end: str = ""
    wraps_content: bool = False
    preserved_tokens: list[str] = field(default_factory=list)
    additional_stops: list[str] = field(default_factory=list)


def analyze(template: ChatTemplate) -> Analysis:
    """How the template marks reasoning and content."""
    made = Analysis()
    _find_shown_reasoning(template, made)
    _find_switched_reasoning(template, made)
    if template.abilities.supports_tool_calls:
        _find_reasoning_scope(template, made)
    _find_content(template, made)
    for mark in (made.start, made.end, made.content_start, made.content_end):
        token = mark.strip(SPACE)
        if token and token not in made.preserved_tokens:
            made.preserved_tokens.append(token)
    _correct(template.source, made)
    return made


# --- rendering ---


class _Split(NamedTuple):
    """Two texts without what they begin and end with in common."""

    left: str = ""
    right: str = ""


class _Compared(NamedTuple):
    """Two renderings."""

    first: str
    second: str
    split: _Split


def _compare(
    template: ChatTemplate,
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
    *,
    thinking: tuple[bool, bool] = (True, True),
    **options: Any,
) -> _Compared | None:
    """Both rendered; None if the template fails for either."""
    options = {"add_generation_prompt": False, **options}
    texts = []
    for messages, enabled in zip((first, second), thinking, strict=True):
        try:
            text = template.render(
                messages,
                enable_thinking=enabled,
                extra={"enable_thinking": enabled},
                trims=False,
                **options,
            )
        except TemplateFailed:
            return None
        texts.append(text)
    return _Compared(texts[0], texts[1], split(texts[0], texts[1]))


class Segment(NamedTuple):
    """A piece of text: a marker in `<>` or `[]`, or what stands between markers."""

    is_marker: bool
    text: str


def segments(text: str) -> list[Segment]:
    """The text cut into markers and what is between."""
    made: list[Segment] = []
    pos = 0
    # A bracket inside an open marker belongs to it; one that never closes begins the last text.
    while opened := re.compile(r"[<\[]").search(text, pos):
        if opened.start() > pos:
            made.append(Segment(False, text[pos : opened.start()]))
        pos = opened.start()
        marker = _MARKED.match(text, pos)
        if marker is None:
            break
        made.append(Segment(True, marker[0]))
        pos = marker.end()
    if pos < len(text):
        made.append(Segment(False, text[pos:]))
    return made


def _filled(text: str) -> list[Segment]:
    return [segment for segment in segments(text) if segment.text.strip(SPACE)]


def split(left: str, right: str) -> _Split:
    """What two texts don't have in common, cut at markers where these differ."""
    lefts, rights = segments(left), segments(right)
    if not lefts:
        return _Split(right=right)
    if not rights:
        return _Split(left=left)
    l0, l1, r0, r1 = 0, len(lefts) - 1, 0, len(rights) - 1
    left_done = right_done = False
    while l0 != l1 and r0 != r1:
        advanced = False
        if lefts[l0] == rights[r0]:
            l0, r0, advanced = l0 + 1, r0 + 1, True
        if lefts[l1] == rights[r1]:
            advanced = True
            if l0 != l1:
                l1 -= 1
            else:
                left_done = True
            if r0 != r1:
                r1 -= 1
            else:
                right_done = True
        if not advanced:
            break
    if l0 == l1 and r0 != r1:
        if lefts[l0] == rights[r1]:
            r1, left_done = r1 - 1, True
        elif lefts[l0] == rights[r0]:
            r0, left_done = r0 + 1, True
    elif r0 == r1 and l0 != l1:
        if lefts[l1] == rights[r0]:
            l1, right_done = l1 - 1, True
        elif lefts[l0] == rights[r0]:
            l0, right_done = l0 + 1, True
    elif l0 == l1 and r0 == r1 and lefts[l0] == rights[r0] and lefts[l0].is_marker:
        left_done = right_done = True
    text_after = not (lefts[l1].is_marker or rights[r1].is_marker)
    text_before = not (lefts[l0].is_marker or rights[r0].is_marker)
    one = "".join(s.text for s in lefts[l0 : l1 + (not left_done)])
    other = "".join(s.text for s in rights[r0 : r1 + (not right_done)])
    after = _shared(one[::-1], other[::-1]) if text_after else 0
    one, other = one[: len(one) - after], other[: len(other) - after]
    before = _shared(one, other) if text_before else 0
    one, other = one[before:], other[before:]
    # Matching at both ends at once may turn a plain continuation round.
    if not one and other and right.startswith(left):
        other = right[len(left) :]
    return _Split(one, other)


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


# --- reasoning ---


def _find_shown_reasoning(template: ChatTemplate, made: Analysis) -> None:
    """The marks around reasoning in the history."""
    thought = {**_ANSWER, "reasoning_content": _THINKING}
    compared = _compare(template, [_USER_MESSAGE, _ANSWER], [_USER_MESSAGE, thought])
    if compared is None or _THINKING not in compared.split.right:
        return
    wrapped = re.search(
        f"({_MARKER}{_GAP}){_THINKING}({_GAP}{_MARKER}{_GAP})", compared.second
    )
    if wrapped:
        made.mode, made.start, made.end = "tags", wrapped[1], wrapped[2]
        return
    delimited = re.search(f"{_THINKING}{_GAP}({_MARKER}{_GAP})?", compared.second)
    if delimited and delimited[1]:
        made.mode, made.end = "tags", delimited[1]


def _find_switched_reasoning(template: ChatTemplate, made: Analysis) -> None:
    """The marks that `enable_thinking` brings into the generation prompt."""
    chat = [_USER_MESSAGE]
    compared = _compare(
        template, chat, chat, thinking=(False, True), add_generation_prompt=True
    )
    if compared is None:
        return
    off, on, (left, right) = compared
    bare_left, bare_right = left.strip(SPACE), right.strip(SPACE)
    if not bare_left and right:
        if bare_right and on.endswith(bare_right) and not made.start:
            made.mode, made.start = "tags", right
    elif not bare_right and left:
        if bare_left and off.endswith(bare_left) and not made.end:
            filled = _filled(off)
            if len(filled) >= 2 and filled[-1].text == bare_left and filled[-2].is_marker:
                made.start = filled[-2].text
            made.mode, made.end = "tags", left
    elif bare_left and bare_right:
        for base, extended in ((on, off), (off, on)):
            if _find_appended(base, extended, made):
                break
    if made.mode == "none" and not made.start and made.end:
        made.mode = "tags"


def _find_appended(base: str, extended: str, made: Analysis) -> bool:
    """Whether one prompt ends as the other and then with two marks, which are taken."""
    anchor = base[-_ANCHOR:]
    at = extended.rfind(anchor)
    if at < 0 or at + len(anchor) >= len(extended):
        return False
    filled = _filled(extended[at + len(anchor) :].strip(SPACE))
    if len(filled) != 2 or not all(segment.is_marker for segment in filled):
        return False
    made.mode = "tags"
    made.start = made.start or filled[0].text
    made.end = made.end or filled[1].text
    return True


def _find_reasoning_scope(template: ChatTemplate, made: Analysis) -> None:
    """Whether reasoning is shown only where tools are called."""
    thought = {**_ANSWER, "reasoning_content": _THINKING}
    called = {
        "role": "assistant",
        "content": None,
        "reasoning_content": _THINKING,
        "tool_calls": [_tool_call(_NAMES[0], {_ARGUMENTS[0]: "VVVV", _ARGUMENTS[1]: "XXXX"})],
    }
    compared = _compare(
        template, [_USER_MESSAGE, thought], [_USER_MESSAGE, called], tools=_TOOLS
    )
    if compared is None or _THINKING in compared.first or _THINKING not in compared.second:
        return
    made.mode = "tools"
    wrapped = re.search(f"({_MARKER}{_GAP}){_THINKING}{_GAP}({_MARKER}{_GAP})", compared.second)
    if wrapped:
        made.start, made.end = wrapped[1], wrapped[2]
        return
    delimited = re.search(f"{_THINKING}{_GAP}({_MARKER}{_GAP})?", compared.second)
    made.end = (delimited and delimited[1]) or ""


# --- content ---


def _find_content(template: ChatTemplate, made: Analysis) -> None:
    """The marks around content."""
    plain = [_USER_MESSAGE, _ANSWER]
    call = _tool_call("test_func", {"arg1": "value1"})
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    thought = {"role": "assistant", "content": "", "reasoning_content": _THINKING}
    by_tools = _compare(template, plain, [_USER_MESSAGE, called], tools=_TOOLS)
    by_reasoning = _compare(template, plain, [_USER_MESSAGE, thought], tools=_TOOLS)
    if by_tools is None or by_reasoning is None:
        return
    tools_left, reasoning_left = by_tools.split.left, by_reasoning.split.left
    if tools_left.strip(SPACE) == _ASSISTANT:
        if not reasoning_left[:1] or reasoning_left[0] not in SPACE:
            return
        after = f"{re.escape(made.end)}{_GAP}{re.escape(_ASSISTANT)}"
        if made.mode != "none" and made.end and re.search(after, reasoning_left):
            return
    if made.end and made.end in reasoning_left:
        reasoning_left = reasoning_left.partition(made.end)[2]
    longer = reasoning_left if len(reasoning_left) > len(tools_left) else tools_left
    wrapped = re.search(
        f"({_MARKER}{_GAP}){re.escape(_ASSISTANT)}{_GAP}({_MARKER}{_GAP})", longer
    )
    if wrapped:
        made.content_start, made.content_end = wrapped[1], wrapped[2]
        made.wraps_content = True


_NAMES = ("FFF_FIRST_FUN_F", "SSS_SECOND_FUN_S")
_ARGUMENTS = ("AA_ARG_FST_AA", "BB_ARG_SND_BB")


def _tool_call(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": "call00001", "type": "function", "function": function}


def _tool(name: str, description: str) -> dict[str, Any]:
    first, second = _ARGUMENTS
    properties = {
        first: {"type": "string", "description": "First argument"},
        second: {"type": "string", "description": "Second argument"},
    }
    parameters = {"type": "object", "properties": properties, "required": []}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_TOOLS = [_tool(_NAMES[0], "Test function foo"), _tool(_NAMES[1], "Test function bar")]


# --- templates that are known to mislead ---


def _correct(source: str, made: Analysis) -> None:
    """Upstream's corrections for families whose templates hide what the models do."""
    old_reasoner = (
        "content.split('</think>')" in source
        and "reasoning_content" not in source
        and "<SPECIAL_12>" not in source
        and made.mode == "none"
    )
    granite = (
        "Write your thoughts between <think></think> and write your response between "
        "<response></response>" in source
    )
    if old_reasoner or granite:
        made.mode, made.start, made.end = "tags", "<think>", "</think>"
        made.preserved_tokens += ["<think>", "</think>"]
    if granite:
        made.content_start, made.content_end = "<response>", "</response>"
        made.wraps_content = False
        made.preserved_tokens += ["<response>", "</response>"]
    command_r = "<|CHATBOT_TOKEN|>" in source and "<|END_OF_TURN_TOKEN|>" in source
    if command_r and not made.content_start:
        made.content_start, made.content_end = "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"
        made.wraps_content = True
        made.preserved_tokens += [made.content_start, made.content_end]
    if _FUNCTIONARY in source:
        made.content_end, made.wraps_content = "", False
        made.preserved_tokens = ["<|eot_id|>", "<|eom_id|>", "<function=", ">", "</function>"]
    nemotron = ("<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<TOOL_RESPONSE>")
    if all(sign in source for sign in nemotron):
        made.mode, made.start, made.end = "tags", "<think>\n", "</think>"
        made.content_start = made.content_end = ""
        made.wraps_content = False
        made.preserved_tokens = ["<SPECIAL_11>", "</think>", "<TOOLCALL>", "</TOOLCALL>"]
    if "laguna_glm_thinking" in source:
        made.start, made.end = made.start.strip(SPACE), made.end.strip(SPACE)
        made.additional_stops.append("</assistant>")


_FUNCTIONARY = (
    'set has_code_interpreter = tools | selectattr("type", "equalto", "code_interpreter")'
    " | list | length > 0"
)
