"""The JSON Schema that a chat's answer is to follow, as the body asks for it."""

from __future__ import annotations

from typing import Any, cast

from generated import errors, wire
from generated.api_error import ApiError
from generated.jsontext import Json
from generated.requests.chat_completions import ChatCompletionsRequest
from handlers.json_schema import schema_to_grammar


def wanted_schema(body: Json, request: ChatCompletionsRequest) -> Json:
    """The schema that `response_format` or `json_schema` asks for, None without one.

    Raises ApiError for an unknown format, and for a schema together with a grammar.
    """
    schema: Any = request.json_schema
    if schema is not None and request.grammar:
        raise errors.json_schema_and_grammar()
    if not wire.contains(body, "response_format"):
        return cast("Json", schema)
    given: Any = wire.value_or(body, "response_format", {}, _as_is)
    kind = wire.value_or(given, "type", "")
    if kind == "json_object":
        if wire.contains(given, "schema") or wire.is_empty(schema):
            schema = wire.value_or(given, "schema", {}, _as_is)
    elif kind == "json_schema":
        wrapper: Any = wire.value_or(given, "json_schema", {}, _as_is)
        schema = wire.value_or(wrapper, "schema", {}, _as_is)
    elif kind not in ("", "text"):
        raise errors.response_format_type(kind)
    return cast("Json", schema)


def plain_grammar(schema: Json) -> str:
    """The grammar of an answer that is nothing but JSON; empty without a schema."""
    try:
        return "" if schema is None else schema_to_grammar(schema)
    except ValueError as error:
        raise ApiError(errors.INVALID_REQUEST, str(error)) from None


def _as_is(value: object) -> Any:
    return value
