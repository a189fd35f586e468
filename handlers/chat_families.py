"""Families of templates that need a format of their own.

They mark reasoning in ways that no comparison finds; upstream knows them by their template's
text, and so does this. The tags, the recognition and the parsers are those of llama.cpp's
`chat.cpp`, for answers without tool calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.grammar import Trigger, TriggerKind
from generated import errors
from handlers.chat_history import gemma_turns, sorted_tool_results, with_thinking_parts
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
    optional,
    prefix,
    reasoning,
    repeat,
    rest,
    rule,
    seq,
    space,
    spaced,
    until,
    whole,
)
from handlers.chat_rendering import (
    PEG_GEMMA4,
    PEG_MINIMAX_M3,
    Chat,
    ChatInputs,
    continued,
    json_answer,
)

Format = Callable[[ChatInputs], Chat]


def special_format(source: str) -> Format | None:
    """The format of a template that needs one of its own."""
    for signs, missing, format in _SPECIAL:
        if all(sign in source for sign in signs) and missing not in source:
            return format
    if (
        "dsml_token" in source
        and "DSML" in source
        and ("function_calls" in source or "tool_calls" in source)
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
        thought = optional("[THINK]", reasoning(until("[/THINK]", number=1)), "[/THINK]")
    schema = inputs.schema or None
    answer: list[Parser | str] = [content(rest)]
    if schema:
        answer = ["```json", json_answer("response-format", schema), "```"]
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=spaced([thought, *answer]),
        triggers=_word("[TOOL_CALLS]"),
        schema=schema,
        thinking_start="[THINK]",
        thinking_ends=("[/THINK]",),
        preserved_tokens=("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
    )
    return continued(inputs, chat, "[THINK]", "[/THINK]")


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
    start, closed = rule("start", "<|start|>assistant"), rule("end", "<|end|>")
    said = rule("message-content", until("<|end|>", number=6))
    stray = optional("<|channel|>commentary", optional(" to=assistant"))
    opening = seq(stray, "<|channel|>analysis<|message|>")
    if inputs.extracts_reasoning:
        analysis = rule("analysis", opening, reasoning(said), closed)
    else:
        analysis = rule("analysis", content(opening, said, closed))
    if inputs.schema is not None:
        kind = optional(space, optional("<|constrain|>"), Chars("[A-Za-z0-9_-]"))
        answer = json_answer("response-format-schema", inputs.schema)
        final = rule("response-format", "<|channel|>final", kind, "<|message|>", answer)
        parser = seq(repeat(seq(start, analysis)), start, final)
    else:
        preamble = seq("<|channel|>commentary<|message|>", content(said), closed)
        final = seq(stray, "<|channel|>final<|message|>", content(said))
        channel = seq("<|channel|>", choice("commentary", "analysis"))
        unsolicited = whole(seq(optional(channel), " to=", said, closed))
        messages_before = repeat(seq(start, choice(preamble, analysis)))
        parser = seq(messages_before, start, choice(final, unsolicited))
    chat = Chat(
        prompt=prompt,
        generation_prompt=inputs.generation_prompt(messages),
        parser=parser,
        triggers=_CHANNEL_TRIGGERS,
        schema=inputs.schema,
        thinking_start="<|channel|>analysis<|message|>",
        thinking_ends=("<|end|>",),
        preserved_tokens=("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"),
    )
    return continued(
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
    return continued(
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
    return continued(inputs, chat, f"{opening}all\n", "", reasons=False)


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
    return continued(inputs, chat, f"{opening}<think>", "</think>")


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
    return continued(inputs, chat, start + think, thought_end + answer)


def _cohere2_moe(inputs: ChatInputs) -> Chat:
    turn, bot = "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"
    think, thought_end = "<|START_THINKING|>", "<|END_THINKING|>"
    answer, answer_end = "<|START_TEXT|>", "<|END_TEXT|>"
    action, turn_end = "<|START_ACTION|>", "<|END_OF_TURN_TOKEN|>"
    said = until(thought_end, answer, action, number=5)
    if inputs.extracts_reasoning:
        thought = optional(think, reasoning(said), optional(thought_end))
    else:
        thought = optional(content(think, said, optional(thought_end)))
    schema = inputs.schema or None
    by_schema = json_answer("response-format-schema", schema) if schema else None
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        triggers=_word(action),
        schema=schema,
        parser=seq(
            turn + bot,
            thought,
            *(answer, by_schema or content(until(answer_end)), optional(answer_end)),
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
    return continued(inputs, chat, turn + bot + think, thought_end + answer)


def _lfm2(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    messages = [
        {**m, "thinking": m["reasoning_content"]} if "reasoning_content" in m else m
        for m in inputs.messages
    ]
    thought: Parser = eps
    if inputs.extracts_reasoning and "<think>" in inputs.template.source:
        thought = optional("<think>", reasoning(until("</think>", number=3)), "</think>")
    answer = content(rest)
    if inputs.schema is not None:
        answer = json_answer("response-format-schema", inputs.schema)
    lists = ("<|tool_list_start|>", "<|tool_list_end|>")
    named = all(token in inputs.template.source for token in lists)
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=seq(opening, thought, answer, end),
        triggers=_word("<|tool_call_start|>"),
        schema=inputs.schema,
        thinking_start="<think>",
        thinking_ends=("</think>",),
        preserved_tokens=(
            *("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"),
            *(lists if named else ()),
        ),
    )
    return continued(inputs, chat, f"{opening}<think>", "</think>")


def _gigachat_v3(inputs: ChatInputs) -> Chat:
    opening = "assistant<|role_sep|>\n"
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, content(rest)),
        supports_thinking=False,
        preserved_tokens=("<|message_sep|>\n\n", "<|role_sep|>\n"),
    )
    return continued(inputs, chat, opening, "", reasons=False)


def _minimax_m3(inputs: ChatInputs) -> Chat:
    think, thought_end = "<mm:think>", "</mm:think>"
    asked = inputs.generation_prompt()
    thought: Parser = eps
    if inputs.extracts_reasoning:
        said, number = until(thought_end), 6
        if inputs.enable_thinking:
            said, number = reasoning(said), 7
        said = Through(seq(said, thought_end), thought_end, number)
        spaces = space if inputs.enable_thinking else eps
        thought = optional(choice(seq(think, spaces, said), thought_end))
    answer = content(rest)
    if inputs.schema is not None:
        answer = _fenced(inputs.schema)
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=asked,
        parser=seq(prefix(asked, think), thought, answer, end),
        triggers=_word("]<]minimax[>[<tool_call>"),
        schema=inputs.schema,
        format=PEG_MINIMAX_M3,
        thinking_start=think,
        thinking_ends=(thought_end,),
        preserved_tokens=("]<]minimax[>[", "<tool_call>", "</tool_call>", think, thought_end),
    )
    return continued(inputs, chat, asked + think, thought_end)


def _deepseek_v3_2(inputs: ChatInputs) -> Chat:
    is_v4 = "function_calls" not in inputs.template.source
    opening, dsml = "<｜Assistant｜>", "｜DSML｜"
    messages = sorted_tool_results(inputs.messages) if is_v4 else None
    answer = content(rest)
    if inputs.schema is not None:
        if inputs.tools:
            # Upstream's grammar is then the one for tool calls alone.
            raise errors.field_deferred("response_format")
        answer = _fenced(inputs.schema)
        if is_v4:
            inputs = replace(inputs, extra=inputs.extra | {"response_format": inputs.schema})
    thought: Parser = eps
    # Upstream makes the parser of tool calls first, also where there are none.
    number = 21 if inputs.parallel_tool_calls else 17
    if inputs.extracts_reasoning and inputs.enable_thinking:
        thought = optional("<think>", reasoning(until("</think>", number=number)), "</think>")
    elif inputs.extracts_reasoning:
        # The generation prompt holds an empty pair of tags (V3.2), or the closing one (V4).
        said = until("</think>", number=number + 1)
        opened: list[Parser | str] = [] if is_v4 else ["<think>", said]
        thought = optional(*opened, "</think>")
    calls = f"<{dsml}{'tool_calls' if is_v4 else 'function_calls'}>"
    chat = Chat(
        prompt=inputs.prompt(messages),
        generation_prompt=inputs.generation_prompt(messages),
        parser=seq(opening, thought, answer, end),
        triggers=_word(calls),
        schema=inputs.schema,
        thinking_start="<think>",
        thinking_ends=("</think>", calls),
        preserved_tokens=(dsml, "<think>", "</think>"),
    )
    if is_v4 and not inputs.continued.reasoning_content:
        if inputs.continuation == "reasoning_content" and inputs.continues:
            return continued(inputs, chat, f"{opening}</think>", "")
        return continued(inputs, chat, f"{opening}</think>", "", reasons=False)
    return continued(inputs, chat, f"{opening}<think>", "</think>")


def _gemma4(inputs: ChatInputs) -> Chat:
    if "{#- OpenAI Chat Completions:" not in inputs.template.source:
        inputs = replace(inputs, messages=gemma_turns(inputs.messages))
    turn, open_tag, close_tag = "<|turn>model\n", "<|channel>thought", "<channel|>"
    prompt, asked = inputs.prompt(), inputs.generation_prompt()
    if inputs.add_generation_prompt and prompt.endswith("<turn|>\n"):
        # After content and a tool call the template opens no turn, and the model needs one.
        asked = turn
        prompt += turn
    said = until(close_tag, number=5)
    if inputs.extracts_reasoning:
        thought = rule("thought", open_tag, space, reasoning(said), close_tag)
    else:
        thought = rule("thought", content(open_tag, space, said, close_tag))
    empty_channels = Unasked(repeat(seq("<|channel>", absent("thought"))))
    thought = choice(seq(ahead("<|channel>"), empty_channels, thought), absent("<|channel>"))
    answer = repeat(seq(thought, content(until("<|channel>", close_tag))), least=1)
    if inputs.schema is not None:
        by_schema = json_answer("response-format-schema", inputs.schema)
        answer = seq(optional(thought), spaced(["```json", by_schema, "```"]))
    chat = Chat(
        prompt=prompt,
        generation_prompt=asked,
        parser=seq(rule("start", optional(turn)), answer),
        triggers=_word("<|tool_call>"),
        schema=inputs.schema,
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
    return continued(inputs, chat, opening, close_tag)


def _minicpm5(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    thought: Parser = eps
    if inputs.extracts_reasoning:
        said = reasoning(until("</think>", number=3))
        thought = seq(spaced(["<think>", said, "</think>"]), space)
    schema = inputs.schema or None
    answer = json_answer("response-format", schema) if schema else seq(content(rest), end)
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, thought, answer),
        triggers=_word("<function"),
        schema=schema,
        thinking_start="<think>",
        thinking_ends=("</think>",),
        preserved_tokens=(
            *("<function", "<param", "</function>", "</param>"),
            *("<think>", "</think>"),
        ),
    )
    return continued(inputs, chat, f"{opening}<think>\n", "\n</think>\n\n")


def _qwen3_coder(inputs: ChatInputs) -> Chat:
    opening = "<|im_start|>assistant\n"
    thinks = "<think>" in inputs.template.source
    thought: Parser = eps
    if thinks and inputs.extracts_reasoning:
        said = reasoning(until("</think>", "<tool_call>", number=6))
        thought = optional("<think>", space, said, choice("</think>", ahead("<tool_call>")))
    schema = inputs.schema or None
    answer = json_answer("response-format", schema) if schema else content(rest)
    chat = Chat(
        prompt=inputs.prompt(),
        generation_prompt=inputs.generation_prompt(),
        parser=seq(opening, spaced([thought, answer])),
        schema=schema,
        thinking_start="<think>" if thinks else "",
        thinking_ends=("</think>", "<tool_call>") if thinks else (),
        supports_thinking=thinks,
        preserved_tokens=(
            *("<tool_call>", "</tool_call>"),
            *(("<think>", "</think>") if thinks else ()),
        ),
    )
    if thinks:
        return continued(inputs, chat, f"{opening}<think>\n", "\n</think>\n\n")
    if inputs.continuation == "reasoning_content" and inputs.continues:
        return replace(chat, generation_prompt=opening, prompt=chat.prompt + opening)
    return continued(inputs, chat, opening, "", reasons=False)


def _word(text: str) -> tuple[Trigger, ...]:
    """A text that begins a tool call."""
    return (Trigger(TriggerKind.WORD, text),)


_CHANNEL_TRIGGERS = tuple(
    Trigger(TriggerKind.PATTERN, pattern)
    for pattern in (
        r"^\s+to$",
        r"^<\|channel\|>(?:commentary|analysis)\s+to=functions$",
        r"<\|start\|>assistant(\s+to)",
        r"<\|start\|>assistant(<\|channel\|>(?:commentary|analysis)\s+to)",
    )
)


def _fenced(schema: dict[str, Any]) -> Parser:
    """JSON in a fence, as some models are used to write it."""
    answer = json_answer("response-format-schema", schema)
    return rule("response-format", spaced(["```json", answer, "```"]))


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
