"""What a template makes of a chat: the prompt, and how the answer to it is taken apart."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from handlers.chat_analysis import Analysis, analyze
from handlers.chat_families import special_format
from handlers.chat_grammar import grammar_of
from handlers.chat_peg import (
    SPACE,
    Parser,
    choice,
    content,
    end,
    eps,
    loosely,
    optional,
    prefix,
    reasoning,
    rest,
    rule,
    seq,
    space,
    spaced,
    until,
)
from handlers.chat_rendering import Chat, ChatInputs, continued, json_answer
from handlers.chat_template import ChatTemplate


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
    """Render a chat; TemplateFailed as the template has it, ValueError for a schema."""
    chat = (special_format(inputs.template.source) or _analysed)(inputs)
    if chat.schema is None:
        return chat
    return replace(chat, grammar=grammar_of(chat.parser, chat.schema))


@lru_cache(maxsize=8)
def supports_thinking(template: ChatTemplate) -> bool:
    """Whether models with this template think before they answer."""
    message = {"role": "user", "content": "test"}
    return apply_template(ChatInputs(template, template.fitting([message]))).supports_thinking


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
        schema=inputs.schema or None,
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
        return continued(inputs, chat, opening, closing)
    if inputs.continuation == "reasoning_content" and inputs.continues:
        return replace(chat, prompt=chat.prompt + asked)
    return continued(inputs, chat, opening, closing, reasons=False)


def _thought_parser(inputs: ChatInputs, marks: Analysis) -> Parser:
    """Takes a reasoning between its tags, if there is one and it is to be taken out."""
    if not inputs.extracts_reasoning or marks.mode == "none" or not marks.end:
        return eps
    opened = loosely(marks.start) if marks.start else eps
    stop = marks.end.strip(SPACE)
    # Upstream makes the closing tag first, three parsers for each white space of it.
    said = reasoning(until(stop, number=4 + 3 * (len(marks.end) - len(stop))))
    return optional(opened, said, loosely(marks.end))


def _analysed_parser(inputs: ChatInputs, marks: Analysis, asked: str) -> Parser:
    extracts = inputs.extracts_reasoning and marks.mode != "none"
    thought = _thought_parser(inputs, marks)
    opening = prefix(asked, marks.start.strip(SPACE)) if asked else eps
    if inputs.schema:
        said = rule("response-format", json_answer("response-format-schema", inputs.schema))
        fenced = seq("```json", space, said, space, "```")
        return seq(opening, space, thought, space, choice(fenced, seq(space, said, space)), end)
    between = eps if marks.mode == "none" else space
    if marks.wraps_content and marks.content_start and marks.content_end:
        before = thought if extracts else content(until(marks.content_start))
        said = seq(marks.content_start, content(until(marks.content_end)), marks.content_end)
        return seq(opening, between, before, said, end)
    return seq(opening, between, thought, content(rest), end)
