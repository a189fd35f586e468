"""Turns a chat body into a completion body: checks the messages, renders the template.

The checks, their order and their errors are those of `oaicompat_chat_params_parse`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from generated import errors, wire
from generated.api_error import ApiError
from generated.jsontext import Json, JsonError
from generated.options import Settings
from generated.requests.chat_completions import ChatCompletionsRequest, read_chat_completions
from handlers.chat_families import special_format
from handlers.chat_formats import apply_template, pure_content, supports_thinking
from handlers.chat_history import adjusted
from handlers.chat_legacy import legacy_prompt
from handlers.chat_messages import (
    Message,
    check_messages,
    check_tool_choice,
    parse_messages,
    parse_tools,
)
from handlers.chat_output import PURE_CONTENT, ChatOutput
from handlers.chat_rendering import (
    CONTENT_ONLY,
    PEG_GEMMA4,
    PEG_MINIMAX_M3,
    PEG_NATIVE,
    Chat,
    ChatInputs,
)
from handlers.chat_template import ChatTemplate, TemplateFailed, now_variables
from handlers.message_starts import Delimiter, delimiters
from handlers.reading import checked_reasoning_format
from handlers.response_format import plain_grammar, wanted_schema
from handlers.server import Server

_FORMAT_NAMES = {
    PEG_NATIVE: "peg-native",
    PEG_GEMMA4: "peg-gemma4",
    PEG_MINIMAX_M3: "peg-minimax-m3",
}


@dataclass(frozen=True)
class ChatRequest:
    """A chat body, read: what to complete, and how to take the answer apart."""

    body: dict[str, Any]
    new_output: Callable[[], ChatOutput]


def completion_body(server: Server, body: Json) -> ChatRequest:
    """The completion body that a chat body asks for; ApiError as upstream has it."""
    return read_chat(server.settings, server.chat_template, body)


def read_chat(settings: Settings, template: ChatTemplate, body: Json) -> ChatRequest:
    """The completion body that a chat body asks for, with any template."""
    try:
        return _read(settings, template, body)
    except JsonError as error:
        raise ApiError(errors.SERVER, str(error)) from None


def _read(settings: Settings, default_template: ChatTemplate, body: Json) -> ChatRequest:
    request = read_chat_completions(body)
    has_tools = isinstance(request.tools, list) and bool(request.tools)
    if not settings.use_jinja:
        if has_tools:
            raise errors.tools_without_jinja()
        if request.tool_choice != "auto":
            raise errors.tool_choice_without_jinja()
    schema = wanted_schema(body, request)
    messages = parse_messages(check_messages(body))
    tools = parse_tools(request.tools)
    check_tool_choice(request)
    continuation, add_generation_prompt = _continuation(settings, body, request, messages)
    reasoning_format = settings.reasoning_format
    if wire.contains(body, "reasoning_format"):
        reasoning_format = _reasoning_format(body)
    if tools and request.tool_choice != "none":
        if wire.contains(body, "grammar"):
            raise errors.grammar_with_tools()
        raise errors.field_deferred("tools")
    template = default_template.for_tools if tools else default_template
    extra, enable_thinking = _variables(settings, default_template, body, request)
    if not settings.use_jinja:
        return _without_jinja(
            settings, body, request, template, messages, add_generation_prompt, schema
        )
    inputs = _inputs(template, messages, continuation)
    given = ChatInputs(
        template,
        tools=tools,
        extra=now_variables() | extra,
        add_generation_prompt=add_generation_prompt and not continuation,
        enable_thinking=enable_thinking,
        extracts_reasoning=reasoning_format != "none",
        schema=schema if isinstance(schema, dict) else None,
        parallel_tool_calls=_parallel_tool_calls(body, default_template),
        **inputs,
    )
    chat = _applied(settings, given)
    made = _completion(settings, body, request, chat, delimiters(template))
    output = partial(
        ChatOutput,
        chat.parser,
        format_name=_FORMAT_NAMES[chat.format],
        generation_prompt=chat.generation_prompt,
        keeps_blank_reasoning=chat.format != PEG_NATIVE,
        skips_prefill=_asked_continuation(body) != "" and not wire.value_or(body, "echo", False),
    )
    return ChatRequest(made, output)


def _without_jinja(
    settings: Settings,
    body: Json,
    request: ChatCompletionsRequest,
    template: ChatTemplate,
    messages: list[Message],
    add_generation_prompt: bool,
    schema: Json,
) -> ChatRequest:
    """A chat in a format that upstream knows without Jinja; its answer is content alone."""
    prompt = legacy_prompt(template.source, messages, add_generation_prompt)
    if prompt is None:
        raise errors.template_not_supported()
    chat = Chat(
        prompt,
        "",
        PURE_CONTENT,
        format=CONTENT_ONLY,
        supports_thinking=False,
        grammar=plain_grammar(schema),
    )
    return ChatRequest(_completion(settings, body, request, chat), ChatOutput)


# --- what the body asks for ---


def _asked_continuation(body: Json) -> str:
    """What `continue_final_message` says: `auto`, `content`, `reasoning_content` or nothing."""
    value = body.get("continue_final_message") if isinstance(body, dict) else None
    if value is True:
        return "auto"
    return value if isinstance(value, str) and value in ("content", "reasoning_content") else ""


def _continuation(
    settings: Settings, body: Json, request: ChatCompletionsRequest, messages: list[Message]
) -> tuple[str, bool]:
    """What of the last message to continue, and whether to add the generation prompt."""
    asked, adds = _asked_continuation(body), request.add_generation_prompt
    roles = [message.role for message in messages]
    if not asked and settings.prefill_assistant and roles[-1:] == ["assistant"]:
        if roles[-2:-1] == ["assistant"]:
            raise errors.assistant_messages_at_end()
        asked, adds = "auto", False
    if asked and adds:
        raise errors.generation_prompt_and_continue()
    return asked, adds


def _reasoning_format(body: Json) -> str:
    name = wire.get_string(wire.at(body, "reasoning_format"))
    try:
        return checked_reasoning_format(name)
    except ValueError:
        raise errors.reasoning_format_unknown(name) from None


def _variables(
    settings: Settings, template: ChatTemplate, body: Json, request: ChatCompletionsRequest
) -> tuple[dict[str, Any], bool]:
    """The template's further variables, and whether the model is to think."""
    extra: dict[str, Any] = {**settings.default_template_kwargs}
    extra |= _members(request.chat_template_kwargs)
    enabled = settings.enable_reasoning is not False and _thinks(settings, template)
    asked = extra.get("enable_thinking")
    if isinstance(asked, str):
        raise errors.enable_thinking_type()
    if isinstance(asked, bool):
        enabled = asked
    effort = request.reasoning_effort
    if wire.contains(body, "reasoning_effort") and effort == "none":
        enabled = False
        extra.pop("reasoning_effort", None)
    elif effort:
        extra["reasoning_effort"] = effort
    return extra, enabled


def _members(kwargs: object) -> dict[str, Any]:
    """What upstream's loop over the members makes of any value."""
    if isinstance(kwargs, dict):
        return kwargs
    if isinstance(kwargs, list):
        return {str(index): item for index, item in enumerate(kwargs)}
    return {} if kwargs is None else {"": kwargs}


def _thinks(settings: Settings, template: ChatTemplate) -> bool:
    try:
        return settings.use_jinja and supports_thinking(template)
    except TemplateFailed:
        return False


def _parallel_tool_calls(body: Json, template: ChatTemplate) -> bool:
    """Whether the model may call several tools at once, by default if the template shows it."""
    return wire.value_or(
        body, "parallel_tool_calls", template.caps["supports_parallel_tool_calls"], wire.get_bool
    )


# --- rendering ---


def _inputs(template: ChatTemplate, messages: list[Message], continuation: str) -> dict[str, Any]:
    """The messages as the template gets them, and the one that is continued."""
    continued = Message()
    shown = messages
    if continuation and messages:
        continued, shown = messages[-1], messages[:-1]
        if continuation == "auto":
            only_reasoning = continued.reasoning_content and not (
                continued.content or continued.parts
            )
            continuation = "reasoning_content" if only_reasoning else "content"
    return {
        "messages": adjusted(template, [message.as_json() for message in shown]),
        "continuation": continuation,
        "continued": continued,
    }


def _applied(settings: Settings, inputs: ChatInputs) -> Chat:
    pure = settings.force_pure_content
    try:
        return pure_content(inputs) if pure else apply_template(inputs)
    except TemplateFailed as error:
        if pure or special_format(inputs.template.source):
            raise ApiError(errors.SERVER, str(error)) from None
        raise errors.template_parser_failed(str(error)) from None
    except ValueError as error:  # the schema has no grammar
        if special_format(inputs.template.source):
            raise ApiError(errors.INVALID_REQUEST, str(error)) from None
        raise errors.template_parser_failed(str(error)) from None


def _completion(
    settings: Settings,
    body: Json,
    request: ChatCompletionsRequest,
    chat: Chat,
    begin_with: Sequence[Delimiter] = (),
) -> dict[str, Any]:
    """The completion body: what the template decides, then the body's own fields."""
    stop = _stop(body)
    if chat.additional_stops:
        stop = [*(stop if isinstance(stop, list) else []), *chat.additional_stops]
    made: dict[str, Any] = {
        "stop": stop,
        "chat_format": chat.format,
        "prompt": chat.prompt,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": list(chat.preserved_tokens),
        "generation_prompt": chat.generation_prompt,
        "message_delimiters": [{"role": one.role, "delimiter": one.text} for one in begin_with],
    }
    if chat.grammar:
        triggers = [{"type": int(t.kind), "value": t.value} for t in chat.triggers]
        made |= {
            "grammar": chat.grammar,
            "grammar_type": "tool_calls",
            "grammar_triggers": triggers,
        }
    if chat.thinking_ends:
        made |= _budget(settings, body, request, chat)
    if request.logprobs:
        if isinstance(request.tools, list) and request.tools and request.stream:
            raise errors.logprobs_with_tools()
        made["n_probs"] = wire.value_or(body, "top_logprobs", 20)
    elif wire.has(body, "top_logprobs"):
        raise errors.top_logprobs_without_logprobs()
    if isinstance(body, dict):
        made |= {k: v for k, v in body.items() if k not in made or k == "n_predict"}
    return made


def _budget(
    settings: Settings, body: Json, request: ChatCompletionsRequest, chat: Chat
) -> dict[str, Any]:
    """How long the model may think, for a template that shows where it does."""
    budget = wire.value_or(body, "reasoning_budget_tokens", request.thinking_budget_tokens)
    return {
        "reasoning_budget_tokens": (settings.reasoning_budget_tokens if budget == -1 else budget),
        "reasoning_budget_start_tag": chat.thinking_start,
        "reasoning_budget_end_tags": list(chat.thinking_ends),
        "reasoning_budget_message": wire.value_or(
            body, "reasoning_budget_message", settings.reasoning_budget_message
        ),
        "reasoning_control": request.reasoning_control,
    }


def _stop(body: Json) -> Json:
    if isinstance(body, dict) and isinstance(body.get("stop"), str):
        return [body["stop"]]
    return wire.value_or(body, "stop", [], _as_is)


def _as_is(value: object) -> Any:
    return value
