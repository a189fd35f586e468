"""Turns a chat body into a completion body: checks the messages, renders the template."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from generated import errors, wire
from generated.api_error import ApiError
from generated.jsontext import Json
from handlers.chat_messages import check_messages, parse_messages
from handlers.chat_output import ChatOutput
from handlers.chat_template import TemplateFailed
from handlers.reading import checked_reasoning_format, continues
from handlers.server import Server

_PEG_NATIVE = 2
"""The chat format of rendered templates, by upstream's number."""


@dataclass(frozen=True)
class ChatRequest:
    """A chat body, read: what to complete, and how to take the answer apart."""

    body: dict[str, Any]
    new_output: Callable[[], ChatOutput]


def completion_body(server: Server, body: Json) -> ChatRequest:
    """The completion body that a chat body asks for; ApiError as upstream has it."""
    try:
        return _read(server, body)
    except TemplateFailed as error:
        raise ApiError(errors.INVALID_REQUEST, str(error)) from None


def _read(server: Server, body: Json) -> ChatRequest:
    if wire.value_or(body, "tools", [], _any_list):
        raise errors.field_deferred("tools")
    made: dict[str, Any] = {"stop": _stop(body)}
    if _wants_structure(body):
        raise errors.field_deferred("response_format")
    messages = check_messages(body)
    parsed = parse_messages(messages)
    add_generation_prompt = wire.value_or(body, "add_generation_prompt", True)
    continuing = continues(body["continue_final_message"]) if (
        wire.contains(body, "continue_final_message") and isinstance(body, dict)
    ) else False
    if not continuing and server.settings.prefill_assistant and _ends_with_assistant(parsed):
        if len(parsed) >= 2 and parsed[-2]["role"] == "assistant":
            raise errors.assistant_messages_at_end()
        continuing, add_generation_prompt = True, False
    if continuing and add_generation_prompt:
        raise errors.generation_prompt_and_continue()
    if wire.contains(body, "reasoning_format"):
        try:
            checked_reasoning_format(wire.get_string(wire.at(body, "reasoning_format")))
        except ValueError as error:
            raise ApiError(errors.SERVER, str(error)) from None
    made |= _rendered(server, body, parsed, add_generation_prompt, continuing)
    if wire.value_or(body, "logprobs", False):
        made["n_probs"] = wire.value_or(body, "top_logprobs", 20)
    elif wire.has(body, "top_logprobs"):
        raise errors.top_logprobs_without_logprobs()
    if isinstance(body, dict):
        made |= {k: v for k, v in body.items() if k not in made or k == "n_predict"}
    return ChatRequest(made, ChatOutput)


def _rendered(
    server: Server,
    body: Json,
    messages: list[dict[str, Any]],
    add_generation_prompt: bool,
    continuing: bool,
) -> dict[str, Any]:
    """The prompt, and what else the template decides."""
    template = server.chat_template
    extra = {**server.settings.default_template_kwargs}
    extra |= wire.value_or(body, "chat_template_kwargs", {}, _any_dict)
    options: dict[str, Any] = {"extra": extra, "enable_thinking": _thinking(extra)}
    shown = messages[:-1] if continuing else messages
    prompt = template.render(
        shown, add_generation_prompt=add_generation_prompt and not continuing, **options
    )
    generation_prompt = template.generation_prompt(shown, **options)
    if continuing:
        generation_prompt += str(messages[-1]["content"])
        prompt += generation_prompt
    return {
        "chat_format": _PEG_NATIVE,
        "prompt": prompt,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "generation_prompt": generation_prompt,
        "message_delimiters": [],
    }


def _stop(body: Json) -> Json:
    if isinstance(body, dict) and isinstance(body.get("stop"), str):
        return [body["stop"]]
    return wire.value_or(body, "stop", [], _as_is)


def _wants_structure(body: Json) -> bool:
    """Whether the answer must follow a schema or a grammar; errors as upstream has them."""
    schema = wire.value_or(body, "json_schema", None, _as_is)
    grammar = wire.value_or(body, "grammar", "")
    if schema is not None and grammar:
        raise errors.json_schema_and_grammar()
    if wire.contains(body, "response_format"):
        response_format = wire.value_or(body, "response_format", {}, _any_dict)
        kind = wire.value_or(response_format, "type", "")
        if kind in ("json_object", "json_schema"):
            return True
        if kind not in ("", "text"):
            raise errors.response_format_type(kind)
    return schema is not None or bool(grammar)


def _thinking(extra: dict[str, Any]) -> bool:
    value = extra.get("enable_thinking", True)
    if isinstance(value, str):
        raise errors.enable_thinking_type()
    return value is not False


def _ends_with_assistant(messages: list[dict[str, Any]]) -> bool:
    return bool(messages) and messages[-1]["role"] == "assistant"


def _as_is(value: object) -> Any:
    return value


def _any_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _any_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
