"""What a template can do, found as `jinja/caps.cpp` finds it: by watching what it uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlers.jinja.errors import TemplateError
from handlers.jinja.program import Program
from handlers.jinja.values import Value, from_json

_MARKER = "STRING_MARKER"
_REASONING = "<REASONING_CONTENT_PLACEHOLDER>"
_USER: dict[str, Any] = {"role": "user", "content": "User message"}
_TOOLS: list[Any] = [
    {
        "name": "tool",
        "type": "function",
        "function": {
            "name": "tool1",
            "description": "Tool description",
            "parameters": {
                "type": "object",
                "properties": {"arg": {"type": "string", "description": "Arg description"}},
                "required": ["arg"],
            },
        },
    }
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What a template can do; the keys are those of `chat_template_caps`, in its order."""

    supports_object_arguments: bool
    supports_parallel_tool_calls: bool
    supports_preserve_reasoning: bool
    supports_reasoning_effort: bool
    supports_string_content: bool
    supports_system_role: bool
    supports_tool_calls: bool
    supports_tools: bool
    supports_typed_content: bool


def reasoning_kept(kept: bool) -> dict[str, Any]:
    """The variables by which templates are told to show the reasoning of the whole history."""
    return {
        "preserve_thinking": kept,
        "clear_thinking": not kept,
        "truncate_history_thinking": not kept,
        "drop_thinking": not kept,
    }


def find_caps(program: Program) -> Caps:
    """Render small conversations and see what the template looks at."""
    typed, plain = _content(program)
    tools, calls, object_arguments = _tools(program)
    return Caps(
        supports_object_arguments=object_arguments,
        supports_parallel_tool_calls=_parallel_calls(program, object_arguments),
        supports_preserve_reasoning=_preserves_reasoning(program),
        supports_reasoning_effort=_reasoning_effort(program),
        supports_string_content=plain,
        supports_system_role=_system_role(program),
        supports_tool_calls=calls,
        supports_tools=tools,
        supports_typed_content=typed,
    )


class _Trial:
    """One conversation, rendered with values that note their use."""

    def __init__(
        self,
        program: Program,
        messages: list[Any],
        *,
        tools: list[Any] | None = None,
        extra: Mapping[str, Value] | None = None,
    ) -> None:
        self.messages = from_json(messages, tracked=True)
        self.tools = from_json(tools or [], tracked=True)
        variables = {
            "messages": self.messages,
            "tools": self.tools,
            "bos_token": b"",
            "eos_token": b"",
            "add_generation_prompt": True,
            **(extra or {}),
        }
        try:
            self.text = program.run(variables, tracking=True)
            self.failed = False
        except TemplateError:
            self.text = b""
            self.failed = True


def _content(program: Program) -> tuple[bool, bool]:
    """Whether it takes content as parts, and whether as a text."""
    trial = _Trial(program, [{"role": "user", "content": _MARKER}])
    content = trial.messages[0][b"content"]
    as_array = bool(content.ops & {"selectattr", "array_access"})
    # A text may be looked at as an array without being left out for it.
    left_out = as_array and _MARKER.encode() not in trial.text
    return as_array, not trial.failed and not left_out


def _system_role(program: Program) -> bool:
    system = {"role": "system", "content": "System message"}
    return bool(_Trial(program, [system, _USER]).messages[0][b"content"].used)


def _tools(program: Program) -> tuple[bool, bool, bool]:
    """Whether it shows tools, tool calls, and takes the arguments as an object."""
    tools = calls = True
    trial = _Trial(program, _tool_chat({"arg": "value"}), tools=_TOOLS)
    if not trial.failed:
        made = trial.messages[1][b"tool_calls"]
        tools, calls = _name_used(trial), made.used
        if calls and made[0][b"function"][b"arguments"][b"arg"].used:
            return tools, calls, True
    trial = _Trial(program, _tool_chat('{"arg": "value"}'), tools=_TOOLS)
    if trial.failed:
        return False, False, False
    tools = tools and _name_used(trial)
    return tools, calls and bool(trial.messages[1][b"tool_calls"].used), False


def _name_used(trial: _Trial) -> bool:
    return bool(trial.tools[0][b"function"][b"name"].used)


def _parallel_calls(program: Program, object_arguments: bool) -> bool:
    arguments = {"arg": "value"} if object_arguments else '{"arg": "value"}'
    trial = _Trial(program, _tool_chat(arguments, arguments), tools=_TOOLS)
    return not trial.failed and bool(
        trial.messages[1][b"tool_calls"][1][b"function"].used
    )


def _tool_chat(*arguments: Any) -> list[Any]:
    calls = [
        {
            "id": f"call{number:05}",
            "type": "function",
            "function": {"name": "tool1", "arguments": given},
        }
        for number, given in enumerate(arguments, 1)
    ]
    return [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The tool response was 'tool response'"},
        _USER,
    ]


def _preserves_reasoning(program: Program) -> bool:
    answer = {"role": "assistant", "content": "Assistant message"}
    messages = [
        _USER,
        answer | {"reasoning_content": _REASONING},
        _USER,
        answer | {"reasoning_content": "Reasoning content"},
        _USER,
    ]
    trial = _Trial(program, messages, extra={"enable_thinking": True} | reasoning_kept(True))
    return _REASONING.encode() in trial.text


def _reasoning_effort(program: Program) -> bool:
    effort = from_json("low", tracked=True)
    extra = {
        "enable_thinking": True,
        "reasoning_effort": effort,
        "reasoning_strength": effort,
    }
    _Trial(program, [_USER], extra=extra)
    return bool(effort.used)
