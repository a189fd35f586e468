"""What a template makes of a chat: the prompt, and how the answer to it is taken apart.

Most templates are analysed. Some families mark reasoning in ways that no comparison finds;
upstream knows them by their template's text, and so does this. The tags, the recognition and
the parsers are those of llama.cpp's `chat.cpp`, for answers without tool calls.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from handlers.chat_analysis import Analysis, analyze
from handlers.chat_history import gemma_turns, sorted_tool_results, with_thinking_parts
from handlers.chat_messages import Message
from handlers.chat_peg import (
    SPACE,
    Parser,
    absent,
    ahead,
    choice,
    content,
    end,
    eps,
    lit,
    loosely,
    optional,
    prefix,
    reasoning,
    repeat,
    rest,
    seq,
    space,
    spaced,
    until,
    whole,
)
from handlers.chat_template import ChatTemplate

CONTENT_ONLY = 0
PEG_NATIVE = 2
PEG_GEMMA4 = 3
PEG_MINIMAX_M3 = 4


@dataclass(frozen=True)
class ChatInputs:
    """A chat, ready to be rendered."""

    template: ChatTemplate
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    enable_thinking: bool = True
    extracts_reasoning: bool = True
    continuation: str = ""
    """What is continued: `content`, `reasoning_content` or nothing."""
    continued: Message = field(default_factory=Message)
    """The message that is continued; it isn't among `messages`."""

    @property
    def continues(self) -> bool:
        """Whether there is something to continue."""
        return bool(self.continuation) and not self.continued.is_empty

    def prompt(self, messages: list[dict[str, Any]] | None = None) -> str:
        """The rendered messages; those given instead are as the template wants them."""
        return self.template.render(
            self.messages if messages is None else messages,
            add_generation_prompt=self.add_generation_prompt,
            **self._options(messages),
        )

    def generation_prompt(self, messages: list[dict[str, Any]] | None = None) -> str:
        """What asking for an answer adds to the prompt."""
        return self.template.generation_prompt(
            self.messages if messages is None else messages, **self._options(messages)
        )

    def _options(self, messages: list[dict[str, Any]] | None) -> dict[str, Any]:
        return {
            "enable_thinking": self.enable_thinking,
            "tools": self.tools,
            "extra": self.extra,
            "fits": messages is None,
        }


@dataclass(frozen=True)
class Chat:
    """What a template made of a chat."""

    prompt: str
    generation_prompt: str
    parser: Parser
    format: int = PEG_NATIVE
    thinking_start: str = ""
    thinking_ends: tuple[str, ...] = ()
    supports_thinking: bool = True
    preserved_tokens: tuple[str, ...] = ()
    additional_stops: tuple[str, ...] = ()
    grammar: str = ""
    """What the answer has to follow, behind the generation prompt; empty for anything."""


def pure_content(inputs: ChatInputs) -> Chat:
    """Render a chat whose answer is content alone. Nothing is continued, as upstream has it."""
    asked = inputs.generation_prompt()
    return Chat(
        prompt=inputs.prompt(),
        generation_prompt=asked,
        parser=spaced([asked, content(rest)]),
        supports_thinking=False,
    )


def apply_template(inputs: ChatInputs) -> Chat:
    """Render a chat; TemplateFailed as the template has it."""
    return (special_format(inputs.template.source) or _analysed)(inputs)


@lru_cache(maxsize=8)
def supports_thinking(template: ChatTemplate) -> bool:
    """Whether models with this template think before they answer."""
    message = {"role": "user", "content": "test"}
    return apply_template(ChatInputs(template, template.fitting([message]))).supports_thinking


Format = Callable[[ChatInputs], Chat]


def _continued(
    inputs: ChatInputs, chat: Chat, opening: str, closing: str, *, reasons: bool = True
) -> Chat:
    """The chat with the message that is continued as its generation prompt."""
    if not inputs.continues:
        return chat
    message = inputs.continued
    generation_prompt = opening + (message.reasoning_content if reasons else "")
    if inputs.continuation == "content" or not reasons:
        generation_prompt += closing + message.text()
    return replace(
        chat,
        generation_prompt=generation_prompt,
        prompt=chat.prompt + generation_prompt,
    )


# --- analysed templates ---


@lru_cache(maxsize=8)
def analysis(template: ChatTemplate) -> Analysis:
    """What comparing renderings says about a template."""
    return analyze(template)


def _analysed(inputs: ChatInputs) -> Chat:
    marks = analysis(inputs.template)
    asked = inputs.generation_prompt()
    start, stop = marks.start.strip(SPACE), marks.end.strip(SPACE)
    thinks = marks.mode != "none"
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=asked,
        parser=_analysed_parser(inputs, marks, asked),
        thinking_start=start if thinks else "",
        thinking_ends=(stop,) if thinks and stop else (),
        supports_thinking=thinks,
        preserved_tokens=tuple(marks.preserved_tokens),
        additional_stops=tuple(marks.additional_stops),
    )
    opening, closing = asked, ""
    if marks.start:
        opening = asked.partition(marks.start)[0] + marks.start
        closing = marks.end
        return _continued(inputs, chat, opening, closing)
    if inputs.continuation == "reasoning_content" and inputs.continues:
        return replace(chat, prompt=chat.prompt + asked)
    return _continued(inputs, chat, opening, closing, reasons=False)


def thought_parser(inputs: ChatInputs, marks: Analysis) -> Parser:
    """Takes a reasoning between its tags, if there is one and it is to be taken out."""
    if not inputs.extracts_reasoning or marks.mode == "none" or not marks.end:
        return eps
    opened = loosely(marks.start) if marks.start else eps
    return optional(opened, reasoning(until(marks.end.strip(SPACE))), loosely(marks.end))


def _analysed_parser(inputs: ChatInputs, marks: Analysis, asked: str) -> Parser:
    extracts = inputs.extracts_reasoning and marks.mode != "none"
    thought = thought_parser(inputs, marks)
    opening = prefix(asked, marks.start.strip(SPACE))
    between = eps if marks.mode == "none" else space
    if marks.wraps_content and marks.content_start and marks.content_end:
        before = thought if extracts else content(until(marks.content_start))
        said = seq(marks.content_start, content(until(marks.content_end)), marks.content_end)
        return seq(opening, between, before, said, end)
    return seq(opening, between, thought, content(rest), end)


# --- templates that upstream knows by their text ---


def special_format(source: str) -> Format | None:
    """The format of a template that needs one of its own."""
    for signs, missing, format in _SPECIAL:
        if all(sign in source for sign in signs) and missing not in source:
            return format
    if "dsml_token" in source and "DSML" in source and (
        "function_calls" in source or "tool_calls" in source
    ):
        return _deepseek_v3_2
    for signs, missing, format in _SPECIAL_LATER:
        if all(sign in source for sign in signs) and missing not in source:
            return format
    return None


def _ministral_3(inputs: ChatInputs) -> Chat:
    messages = with_thinking_parts(inputs.messages)
    thought: Parser = eps
    if inputs.extracts_reasoning:
        thought = optional("[THINK]", reasoning(until("[/THINK]")), "[/THINK]")
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=spaced([thought, content(rest)]),
        thinking_start="[THINK]",
        thinking_ends=("[/THINK]",),
        preserved_tokens=("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
    )
    return _continued(inputs, chat, "[THINK]", "[/THINK]")


def _gpt_oss(inputs: ChatInputs) -> Chat:
    messages = []
    for message in inputs.messages:
        adjusted = dict(message)
        if isinstance(message.get("reasoning_content"), str):
            adjusted["thinking"] = message["reasoning_content"]
            if message.get("tool_calls"):
                adjusted.pop("content", None)
        messages.append(adjusted)
    prompt = inputs.prompt(messages)
    if not inputs.add_generation_prompt:
        # The last answer of a history isn't the end of the chat.
        before, mark, after = prompt.rpartition("<|return|>")
        prompt = f"{before}<|end|>{after}" if mark else prompt
    start, said = lit("<|start|>assistant"), until("<|end|>")
    stray = optional("<|channel|>commentary", optional(" to=assistant"))
    opening = seq(stray, "<|channel|>analysis<|message|>")
    if inputs.extracts_reasoning:
        analysis = seq(opening, reasoning(said), "<|end|>")
    else:
        analysis = content(opening, said, "<|end|>")
    preamble = seq("<|channel|>commentary<|message|>", content(said), "<|end|>")
    final = seq(stray, "<|channel|>final<|message|>", content(said))
    channel = seq("<|channel|>", choice("commentary", "analysis"))
    unsolicited = whole(seq(optional(channel), " to=", said, "<|end|>"))
    chat = Chat(
        prompt=prompt,
        generation_prompt=inputs.generation_prompt(messages),
        parser=seq(
            repeat(seq(start, choice(preamble, analysis))), start, choice(final, unsolicited)
        ),
        thinking_start="<|channel|>analysis<|message|>",
        thinking_ends=("<|end|>",),
        preserved_tokens=("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"),
    )
    return _continued(
        inputs,
        chat,
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    )


def _muse_glimmer(inputs: ChatInputs) -> Chat:
    start = "<|start|>assistant"
    thought = seq(" to=self<|message|>", reasoning(until("<|eom|>")), "<|eom|>")
    answer = content(until("<|eot|>", "<|eom|>"))
    final = seq(optional(" to=user"), "<|message|>", answer)
    if inputs.extracts_reasoning:
        parser = seq(repeat(seq(start, thought)), start, final)
    else:
        parser = seq(start, content(rest))
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=start,
        parser=parser,
        preserved_tokens=(
            "<|start|>",
            "<|message|>",
            "<|eom|>",
            "<|eot|>",
            "<atem:function_calls>",
            "<atem:invoke",
            "<atem:parameter",
            "</atem:parameter>",
            "</atem:invoke>",
            "</atem:function_calls>",
        ),
    )
    return _continued(
        inputs,
        chat,
        f"{start} to=self<|message|>",
        f"<|eom|>{start} to=user<|message|>",
    )


def _functionary_v3_2(inputs: ChatInputs) -> Chat:
    opening = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>"
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, "all\n", content(rest), end),
        supports_thinking=False,
        preserved_tokens=(">>>all",),
    )
    return _continued(inputs, chat, f"{opening}all\n", "", reasons=False)


def _kimi_k2(inputs: ChatInputs) -> Chat:
    opening = "<|im_assistant|>assistant<|im_middle|>"
    section, call = "<|tool_calls_section_begin|>", "<|tool_call_begin|>"
    thought: Parser = eps
    if inputs.extracts_reasoning:
        thought = optional(
            "<think>", reasoning(until("</think>", section, call)), optional("</think>")
        )
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, thought, content(rest), end),
        thinking_start="<think>",
        thinking_ends=("</think>",),
        preserved_tokens=(
            section,
            "<|tool_calls_section_end|>",
            call,
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            "<think>",
            "</think>",
        ),
    )
    return _continued(inputs, chat, f"{opening}<think>", "</think>")


def _kimi_k3(inputs: ChatInputs) -> Chat:
    start = '<|open|>message role="assistant"<|sep|>'
    think, thought_end = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
    answer, answer_end = "<|open|>response<|sep|>", "<|close|>response<|sep|>"
    message_end = "<|close|>message<|sep|>"
    tag = reasoning if inputs.extracts_reasoning else content
    # The section is always there: the generation prompt opens it.
    thought = optional(optional(think), tag(until(thought_end, answer)), optional(thought_end))
    said = content(until(answer_end, "<|open|>tools<|sep|>", message_end))
    answered = seq(optional(answer), said, optional(answer_end))
    closed = seq(optional(message_end), optional("<|end_of_msg|>"))
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(optional(start), thought, answered, closed, end),
        thinking_start=think,
        thinking_ends=(thought_end,),
        preserved_tokens=("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    )
    return _continued(inputs, chat, start + think, thought_end + answer)


def _cohere2_moe(inputs: ChatInputs) -> Chat:
    turn, bot = "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"
    think, thought_end = "<|START_THINKING|>", "<|END_THINKING|>"
    answer, answer_end = "<|START_TEXT|>", "<|END_TEXT|>"
    action, turn_end = "<|START_ACTION|>", "<|END_OF_TURN_TOKEN|>"
    said = until(thought_end, answer, action)
    if inputs.extracts_reasoning:
        thought = optional(think, reasoning(said), optional(thought_end))
    else:
        thought = optional(content(think, said, optional(thought_end)))
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(
            turn + bot,
            thought,
            *(answer, content(until(answer_end)), optional(answer_end)),
            optional(turn_end),
            end,
        ),
        thinking_start=think,
        thinking_ends=(thought_end,),
        preserved_tokens=(
            *(turn, turn_end, bot, "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>"),
            *(think, thought_end, answer, answer_end, action, "<|END_ACTION|>"),
            *("<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
        ),
    )
    return _continued(inputs, chat, turn + bot + think, thought_end + answer)


def _lfm2(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    messages = [
        {**m, "thinking": m["reasoning_content"]} if "reasoning_content" in m else m
        for m in inputs.messages
    ]
    thought: Parser = eps
    if inputs.extracts_reasoning and "<think>" in inputs.template.source:
        thought = optional("<think>", reasoning(until("</think>")), "</think>")
    lists = ("<|tool_list_start|>", "<|tool_list_end|>")
    named = all(token in inputs.template.source for token in lists)
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=seq(opening, thought, content(rest), end),
        thinking_start="<think>",
        thinking_ends=("</think>",),
        preserved_tokens=(
            *("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"),
            *(lists if named else ()),
        ),
    )
    return _continued(inputs, chat, f"{opening}<think>", "</think>")


def _gigachat_v3(inputs: ChatInputs) -> Chat:
    opening = "assistant<|role_sep|>\n"
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, content(rest)),
        supports_thinking=False,
        preserved_tokens=("<|message_sep|>\n\n", "<|role_sep|>\n"),
    )
    return _continued(inputs, chat, opening, "", reasons=False)


def _minimax_m3(inputs: ChatInputs) -> Chat:
    think, thought_end = "<mm:think>", "</mm:think>"
    asked = inputs.generation_prompt()
    thought: Parser = eps
    if inputs.extracts_reasoning:
        said: list[Parser | str] = [until(thought_end)]
        if inputs.enable_thinking:
            said = [space, reasoning(*said)]
        thought = optional(choice(seq(think, *said, thought_end), thought_end))
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=asked,
        parser=seq(prefix(asked, think), thought, content(rest), end),
        format=PEG_MINIMAX_M3,
        thinking_start=think,
        thinking_ends=(thought_end,),
        preserved_tokens=("]<]minimax[>[", "<tool_call>", "</tool_call>", think, thought_end),
    )
    return _continued(inputs, chat, asked + think, thought_end)


def _deepseek_v3_2(inputs: ChatInputs) -> Chat:
    is_v4 = "function_calls" not in inputs.template.source
    opening, dsml = "<｜Assistant｜>", "｜DSML｜"
    messages = sorted_tool_results(inputs.messages) if is_v4 else None
    thought: Parser = eps
    if inputs.extracts_reasoning and inputs.enable_thinking:
        thought = optional("<think>", reasoning(until("</think>")), "</think>")
    elif inputs.extracts_reasoning:
        # The generation prompt holds an empty pair of tags (V3.2), or the closing one (V4).
        opened: list[Parser | str] = [] if is_v4 else ["<think>", until("</think>")]
        thought = optional(*opened, "</think>")
    calls = f"<{dsml}{'tool_calls' if is_v4 else 'function_calls'}>"
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=seq(opening, thought, content(rest), end),
        thinking_start="<think>",
        thinking_ends=("</think>", calls),
        preserved_tokens=(dsml, "<think>", "</think>"),
    )
    if is_v4 and not inputs.continued.reasoning_content:
        if inputs.continuation == "reasoning_content" and inputs.continues:
            return _continued(inputs, chat, f"{opening}</think>", "")
        return _continued(inputs, chat, f"{opening}</think>", "", reasons=False)
    return _continued(inputs, chat, f"{opening}<think>", "</think>")


def _gemma4(inputs: ChatInputs) -> Chat:
    if "{#- OpenAI Chat Completions:" not in inputs.template.source:
        inputs = replace(inputs, messages=gemma_turns(inputs.messages))
    turn, open_tag, close_tag = "<|turn>model\n", "<|channel>thought", "<channel|>"
    prompt, asked = inputs.prompt(), inputs.generation_prompt()
    if inputs.add_generation_prompt and prompt.endswith("<turn|>\n"):
        # After content and a tool call the template opens no turn, and the model needs one.
        asked = turn
        prompt += turn
    if inputs.extracts_reasoning:
        thought = seq(open_tag, space, reasoning(until(close_tag)), close_tag)
    else:
        thought = content(open_tag, space, until(close_tag), close_tag)
    empty_channels = repeat(seq("<|channel>", absent("thought")))
    thought = choice(seq(ahead("<|channel>"), empty_channels, thought), absent("<|channel>"))
    message = seq(thought, content(until("<|channel>", close_tag)))
    chat = Chat(
        prompt=prompt,
        generation_prompt=asked,
        parser=seq(optional(turn), repeat(message, least=1)),
        format=PEG_GEMMA4,
        thinking_start=open_tag,
        thinking_ends=(close_tag,),
        preserved_tokens=(
            "<|channel>",
            close_tag,
            "<|tool_call>",
            "<tool_call|>",
            "<|turn>",
        ),
    )
    opening = (turn if prompt.endswith("<turn|>\n") else "") + f"{open_tag}\n"
    return _continued(inputs, chat, opening, close_tag)


def _minicpm5(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    thought: Parser = eps
    if inputs.extracts_reasoning:
        thought = seq(spaced(["<think>", reasoning(until("</think>")), "</think>"]), space)
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, thought, content(rest), end),
        thinking_start="<think>",
        thinking_ends=("</think>",),
        preserved_tokens=(
            *("<function", "<param", "</function>", "</param>"),
            *("<think>", "</think>"),
        ),
    )
    return _continued(inputs, chat, f"{opening}<think>\n", "\n</think>\n\n")


def _qwen3_coder(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    thinks = "<think>" in inputs.template.source
    thought: Parser = eps
    if thinks and inputs.extracts_reasoning:
        said = reasoning(until("</think>", "<tool_call>"))
        thought = optional(
            "<think>", space, said, choice("</think>", ahead("<tool_call>"))
        )
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, spaced([thought, content(rest)])),
        thinking_start="<think>" if thinks else "",
        thinking_ends=("</think>", "<tool_call>") if thinks else (),
        supports_thinking=thinks,
        preserved_tokens=(
            *("<tool_call>", "</tool_call>"),
            *(("<think>", "</think>") if thinks else ()),
        ),
    )
    if thinks:
        return _continued(inputs, chat, f"{opening}<think>\n", "\n</think>\n\n")
    if inputs.continuation == "reasoning_content" and inputs.continues:
        return replace(chat, generation_prompt=opening, prompt=chat.prompt + opening)
    return _continued(inputs, chat, opening, "", reasons=False)


_NOTHING = "\0"

# Which texts a template has, and one that it hasn't; the first that fits counts.
_SPECIAL: tuple[tuple[tuple[str, ...], str, Format], ...] = (
    (("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"), "[CALL_ID]", _ministral_3),
    (("<|channel|>",), _NOTHING, _gpt_oss),
    (("<atem:function_calls>", "<|eom|>"), _NOTHING, _muse_glimmer),
    ((">>>all", ">>>${recipient}"), _NOTHING, _functionary_v3_2),
    (("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), _NOTHING, _kimi_k2),
    (("<|open|>", "<|close|>", "<|end_of_msg|>"), _NOTHING, _kimi_k3),
    (("<|START_TEXT|>", "<|START_ACTION|>"), _NOTHING, _cohere2_moe),
    (("<|tool_list_start|>", "<|tool_list_end|>"), _NOTHING, _lfm2),
    (("List of tools: [",), "<|tool_list_start|>", _lfm2),
    (("<|role_sep|>", "<|message_sep|>"), "<|function_call|>", _gigachat_v3),
    (("]<]minimax[>[", "<tool_call>", "<invoke name="), _NOTHING, _minimax_m3),
)
_SPECIAL_LATER: tuple[tuple[tuple[str, ...], str, Format], ...] = (
    (("'<|tool_call>call:'",), _NOTHING, _gemma4),
    (
        ("Tool usage guidelines:", '<function name="', '<param name="'),
        _NOTHING,
        _minicpm5,
    ),
    (("<tool_call>", "<function=", "<parameter="), _NOTHING, _qwen3_coder),
)
