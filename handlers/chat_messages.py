"""Checks and reads the messages of a chat body, with upstream's errors in its order."""

import json
from dataclasses import dataclass, field
from typing import Any

from generated import errors, wire
from generated.jsontext import Json, JsonError, dumps
from generated.requests.chat_completions import ChatCompletionsRequest

_MEDIA = {
    "image_url": errors.image_not_supported,
    "input_audio": errors.chat_audio_not_supported,
    "input_video": errors.video_not_supported,
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in the history; the arguments are JSON text."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; its content is a text or parts, and an empty text says nothing."""

    role: str = ""
    content: str = ""
    parts: tuple[str, ...] = ()
    reasoning_content: str = ""
    name: str = ""
    tool_call_id: str = ""
    tool_calls: tuple[ToolCall, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing but its role."""
        return self == Message(role=self.role)

    def text(self) -> str:
        """The content, its parts with an empty line between."""
        if self.content or not self.parts:
            return self.content
        joined = ""
        for part in self.parts:
            joined += f"\n\n{part}" if joined else part
        return joined

    def as_json(self) -> dict[str, Any]:
        """The message as templates get it, its parts still apart."""
        made: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.parts:
            made["content"] = [{"type": "text", "text": part} for part in self.parts]
        if self.reasoning_content:
            made["reasoning_content"] = self.reasoning_content
        if self.name:
            made["name"] = self.name
        if self.tool_call_id:
            made["tool_call_id"] = self.tool_call_id
        if self.tool_calls:
            made["tool_calls"] = [_call_as_json(call) for call in self.tool_calls]
        return made


def _call_as_json(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    made: dict[str, Any] = {"type": "function", "function": function}
    if call.id:
        made["id"] = call.id
    return made


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


def parse_messages(messages: list[Json]) -> list[Message]:
    """The messages; nothing that isn't a message's is kept."""
    try:
        return [_parse_message(message) for message in messages]
    except JsonError as error:
        raise errors.messages_parse(str(error)) from None


def _parse_message(message: Json) -> Message:
    if not isinstance(message, dict):
        raise errors.message_not_object(dumps(message))
    if "role" not in message:
        raise errors.message_without_role(dumps(message))
    role = wire.get_string(message["role"])
    content, parts = _content(message.get("content"))
    calls = tuple(_tool_call(call) for call in wire.elements(message.get("tool_calls")))
    optional = {
        key: wire.get_string(message[key])
        for key in ("reasoning_content", "name", "tool_call_id")
        if key in message
    }
    return Message(role, content, parts, tool_calls=calls, **optional)


def _content(content: Json) -> tuple[str, tuple[str, ...]]:
    """The text or the parts."""
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list):
        raise errors.content_invalid(dumps(content))
    return "", tuple(wire.get_string(wire.at(part, "text")) for part in content)


def _tool_call(call: object) -> ToolCall:
    if not wire.contains(call, "type"):
        raise errors.tool_call_without_type(dumps(call))
    if wire.at(call, "type") != "function":
        raise errors.tool_call_unsupported(dumps(call))
    if not wire.contains(call, "function"):
        raise errors.tool_call_without_function(dumps(call))
    function = wire.at(call, "function")
    if not wire.contains(function, "name"):
        raise errors.tool_call_without_name(dumps(call))
    name = wire.get_string(wire.at(function, "name"))
    arguments = wire.at(function, "arguments")
    return ToolCall(
        name,
        arguments if isinstance(arguments, str) else dumps(arguments),
        wire.get_string(wire.at(call, "id")) if wire.contains(call, "id") else "",
    )


def parse_tools(tools: Json) -> list[dict[str, Any]]:
    """The tools as templates get them."""
    if tools is None:
        return []
    shown = json.dumps(tools, indent=2, ensure_ascii=False)
    if not isinstance(tools, list):
        raise errors.tools_not_array(dumps(tools), shown)
    try:
        return [_tool(tool, shown) for tool in tools]
    except JsonError as error:
        raise errors.tools_parse(str(error), shown) from None


def _tool(tool: Json, shown: str) -> dict[str, Any]:
    if not wire.contains(tool, "type"):
        raise errors.tool_without_type(dumps(tool), shown)
    if wire.at(tool, "type") != "function":
        raise errors.tool_unsupported(dumps(tool), shown)
    if not wire.contains(tool, "function"):
        raise errors.tool_without_function(dumps(tool), shown)
    function = wire.at(tool, "function")
    name = wire.get_string(wire.at(function, "name"))
    description, parameters = "", {}
    if isinstance(function, dict):
        description = wire.get_string(function.get("description", ""))
        parameters = function.get("parameters", {})
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def check_tool_choice(request: ChatCompletionsRequest) -> None:
    """ApiError for a `tool_choice` that upstream doesn't know."""
    if request.tool_choice not in ("auto", "none", "required"):
        raise errors.tool_choice_invalid(request.tool_choice)
