"""Changes to a chat's messages that templates need: what they can't show, or show differently."""

from collections.abc import Sequence
from typing import Any

from generated.api_error import ApiError
from generated.errors import SERVER
from generated.jsontext import JsonError, loads
from handlers.chat_peg import SPACE
from handlers.chat_template import ChatTemplate

Messages = list[dict[str, Any]]

_STEPFUN = "You have access to the following functions in JSONSchema format"


def adjusted(template: ChatTemplate, messages: Sequence[dict[str, Any]]) -> Messages:
    """The messages as upstream hands them to any template."""
    if _STEPFUN in template.source:
        messages = [_trimmed(message) for message in messages]
    made = template.fitting(messages)
    if "<|channel|>" not in template.source:
        for message in made:
            if message["role"] == "developer":
                message["role"] = "system"
    if not template.abilities.supports_system_role:
        _merge_system(made)
    if template.abilities.supports_object_arguments:
        made = [_with_object_arguments(message) for message in made]
    return made


def _trimmed(message: dict[str, Any]) -> dict[str, Any]:
    """Without the white space that sets this family of models off thinking in circles."""
    made = dict(message)
    for key in ("content", "reasoning_content"):
        if isinstance(made.get(key), str):
            made[key] = made[key].strip(SPACE)
    if made.get("reasoning_content") == "":
        del made["reasoning_content"]
    if isinstance(made["content"], list):
        made["content"] = [{**p, "text": p["text"].strip(SPACE)} for p in made["content"]]
    return made


def _merge_system(messages: Messages) -> None:
    """Put the system message in front of the next one; alone, leave it out."""
    if not messages or messages[0]["role"] != "system":
        return
    system = messages.pop(0)
    if messages:
        texts = [_text(system["content"]), _text(messages[0]["content"])]
        messages[0]["content"] = "\n".join(texts)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    raise ApiError(SERVER, "[json.exception.type_error.302] type must be string, but is array")


def _with_object_arguments(message: dict[str, Any]) -> dict[str, Any]:
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        try:
            arguments = loads(function["arguments"].encode())
        except JsonError as error:
            raise ApiError(
                SERVER, f"Failed to parse tool call arguments as JSON: {error}"
            ) from None
        calls.append({**call, "function": {**function, "arguments": arguments}})
    return {**message, "tool_calls": calls}


def with_thinking_parts(messages: Messages) -> Messages:
    """The assistant's and the system's contents as parts, reasoning as the first of them."""
    made = []
    for message in messages:
        if message["role"] not in ("system", "assistant"):
            made.append(message)
            continue
        parts: list[dict[str, Any]] = []
        if isinstance(message.get("reasoning_content"), str):
            parts.append({"type": "thinking", "thinking": message["reasoning_content"]})
        content = message.get("content")
        if isinstance(content, str):
            parts.append({"type": "text", "text": content})
        elif isinstance(content, list):
            parts += content
        other = {k: v for k, v in message.items() if k != "reasoning_content"}
        made.append({**other, "content": parts})
    return made


def sorted_tool_results(messages: Messages) -> Messages:
    """Tool results that follow each other, in the order of the calls that they answer."""
    made = list(messages)
    order: dict[str, int] = {}
    start = 0
    while start < len(made):
        message = made[start]
        if message["role"] == "assistant" and message.get("tool_calls"):
            calls = enumerate(message["tool_calls"])
            order = {call["id"]: index for index, call in calls if call.get("id")}
        if message["role"] not in ("user", "tool"):
            start += 1
            continue
        stop = start
        while stop < len(made) and made[stop]["role"] in ("user", "tool"):
            stop += 1
        places = [p for p in range(start, stop) if made[p]["role"] == "tool"]
        if len(places) > 1 and order:
            ids = order
            results = sorted(
                (made[p] for p in places), key=lambda m: ids.get(m.get("tool_call_id", ""), 0)
            )
            for place, result in zip(places, results, strict=True):
                made[place] = result
        start = stop
    return made


def gemma_turns(messages: Messages) -> Messages:
    """Calls, their results and the answer as one message, with `tool_responses`."""
    made: Messages = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message["role"] != "assistant" or not message.get("tool_calls"):
            made.append(message)
            continue
        calls, responses = message["tool_calls"], list[dict[str, Any]]()
        while position < len(messages) and messages[position]["role"] == "tool":
            responses.append(_response(messages[position], calls, len(responses)))
            position += 1
        turn: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
        if responses:
            turn["tool_responses"] = responses
        if position < len(messages) and messages[position]["role"] == "assistant":
            answer = messages[position]
            if not answer.get("tool_calls") and answer.get("content"):
                turn["content"] = answer["content"]
                position += 1
        if isinstance(message.get("reasoning_content"), str):
            turn["reasoning_content"] = message["reasoning_content"]
        made.append(turn)
    return made


def _response(result: dict[str, Any], calls: Messages, index: int) -> dict[str, Any]:
    response = result.get("content")
    if isinstance(response, str):
        try:
            response = loads(response.encode())
        except JsonError:
            response = result["content"]
    name = calls[index]["function"]["name"] if index < len(calls) else ""
    return {"name": name or result.get("tool_call_id", ""), "response": response}
