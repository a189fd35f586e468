"""A chat as it is rendered: what goes into a template, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from engine.grammar import Trigger
from handlers.chat_messages import Message
from handlers.chat_peg import Parser, content
from handlers.chat_template import ChatTemplate
from handlers.json_text import JsonBySchema

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
    schema: dict[str, Any] | None = None
    """What the answer has to follow."""
    parallel_tool_calls: bool = False

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
    schema: dict[str, Any] | None = None
    """What the parser takes the JSON of; None if it takes none."""
    grammar: str = ""
    """What the answer has to follow, behind the generation prompt; empty for anything."""
    triggers: tuple[Trigger, ...] = ()
    """What shows that a tool call begins; told with every grammar."""


def continued(
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


def json_answer(name: str, schema: dict[str, Any]) -> Parser:
    """The answer is JSON; `name` is that of the schema's rule in a grammar."""
    return content(JsonBySchema(name, schema))
