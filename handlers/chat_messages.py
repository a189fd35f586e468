"""Checks and reads the messages of a chat body, with upstream's errors in its order."""

from typing import Any

from generated import errors, wire
from generated.jsontext import Json, JsonError, dumps

_MEDIA = {
    "image_url": errors.image_not_supported,
    "input_audio": errors.chat_audio_not_supported,
    "input_video": errors.video_not_supported,
}


def check_messages(body: Json) -> list[Json]:
    """The messages, checked as far as upstream does before it parses them."""
    if not isinstance(body, dict) or "messages" not in body:
        raise errors.messages_required()
    messages = body["messages"]
    if not isinstance(messages, list):
        raise errors.messages_not_array()
    for message in messages:
        _check_message(message)
    return messages


def _check_message(message: Json) -> None:
    assistant = wire.value_or(message, "role", "") == "assistant"
    if not wire.contains(message, "content"):
        if not assistant:
            raise errors.message_without_content()
        if not wire.contains(message, "tool_calls"):
            raise errors.assistant_without_content()
        return
    content = wire.at(message, "content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise errors.content_type()
    for part in content:
        kind = wire.value_or(part, "type", "")
        if kind in _MEDIA:
            raise _MEDIA[kind]()
        if kind != "text":
            raise errors.content_part_type()


def parse_messages(messages: list[Json]) -> list[dict[str, Any]]:
    """The messages as templates get them: parts joined, nothing that isn't a message's."""
    try:
        return [_parse_message(message) for message in messages]
    except JsonError as error:
        raise errors.messages_parse(str(error)) from None


def _parse_message(message: Json) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise errors.message_not_object(dumps(message))
    if "role" not in message:
        raise errors.message_without_role(dumps(message))
    parsed: dict[str, Any] = {
        "role": wire.get_string(message["role"]),
        "content": _content(message.get("content")),
    }
    for key, name in (
        ("reasoning_content", "reasoning_content"),
        ("name", "name"),
        ("tool_call_id", "tool_call_id"),
    ):
        if key in message and (text := wire.get_string(message[key])):
            parsed[name] = text
    if calls := [_tool_call(call) for call in message.get("tool_calls") or []]:
        parsed["tool_calls"] = calls
    return parsed


def _content(content: Json) -> str:
    """The text; parts are joined with line ends."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise errors.content_invalid(dumps(content))
    texts = [wire.get_string(wire.at(part, "text")) for part in content]
    joined = ""
    for text in texts:
        joined += f"\n{text}" if joined else text
    return joined


def _tool_call(call: Json) -> dict[str, Any]:
    if not wire.contains(call, "type"):
        raise errors.tool_call_without_type(dumps(call))
    if wire.at(call, "type") != "function":
        raise errors.tool_call_unsupported(dumps(call))
    if not wire.contains(call, "function"):
        raise errors.tool_call_without_function(dumps(call))
    function = wire.at(call, "function")
    if not wire.contains(function, "name"):
        raise errors.tool_call_without_name(dumps(call))
    arguments = wire.at(function, "arguments")
    parsed: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": wire.get_string(wire.at(function, "name")),
            "arguments": arguments if isinstance(arguments, str) else dumps(arguments),
        },
    }
    if wire.contains(call, "id"):
        parsed["id"] = wire.get_string(wire.at(call, "id"))
    return parsed
