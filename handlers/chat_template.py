"""A model's chat template: renders messages to a prompt, and knows what it can do."""

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from handlers.jinja.caps import Caps, find_caps, reasoning_kept
from handlers.jinja.errors import TemplateError
from handlers.jinja.program import Program

CHATML = (
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\n' -}}\n"
    "{%- endif -%}"
)
"""What is used for a model that brings no template."""

# Checks of two families' templates that refuse messages which upstream lets pass.
_PATCHES = (
    (
        ("<|channel|>", "in message.content or"),
        '{%- if "<|channel|>analysis<|message|>" in message.content or '
        '"<|channel|>final<|message|>" in message.content %}',
    ),
    (
        ("[TOOL_CALLS]", "if (message['content'] is none or"),
        "{%- if (message['content'] is none or message['content'] == '' or "
        "message['content']|length == 0) and (message['tool_calls'] is not defined or "
        "message['tool_calls'] is none or message['tool_calls']|length == 0) %}",
    ),
)


class TemplateFailed(Exception):
    """A template that can't be parsed, in one line, or rendered, in upstream's words."""


class ChatTemplate:
    """One template and the model's texts that it may use."""

    def __init__(
        self,
        source: str,
        *,
        bos: str,
        eos: str,
        add_bos: bool = False,
        add_eos: bool = False,
        tool_use: str = "",
    ) -> None:
        """`add_bos`, `add_eos`: tokenizing adds them, so the rendered text must not.

        `tool_use` is the template for chats with tools, if the model has one of its own.
        Raises TemplateFailed for a template that can't be parsed.
        """
        if not source or source == "chatml":
            source = tool_use or CHATML
        for signs, check in _PATCHES:
            if all(sign in source for sign in signs):
                source = source.replace(check, "{%- if false %}")
        try:
            self._program = Program(source)
        except TemplateError as error:
            reason = str(error).partition("\n")[0]
            raise TemplateFailed(
                f"the chat template can't be parsed ({reason}):"
                " give another one with --chat-template or --chat-template-file,"
                " for example --chat-template chatml"
            ) from None
        self.bos = bos
        self.eos = eos
        self.add_bos = add_bos
        self.add_eos = add_eos
        self._tool_use = tool_use

    @property
    def source(self) -> str:
        """The template's text, as it is used."""
        return self._program.source

    @cached_property
    def for_tools(self) -> "ChatTemplate":
        """The template for chats with tools; one that can't be parsed is passed over."""
        if not self._tool_use:
            return self
        try:
            return ChatTemplate(
                self._tool_use,
                bos=self.bos,
                eos=self.eos,
                add_bos=self.add_bos,
                add_eos=self.add_eos,
            )
        except TemplateFailed:
            return self

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        enable_thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        extra: Mapping[str, Any] | None = None,
        fits: bool = True,
        trims: bool = True,
    ) -> str:
        """The prompt; raises TemplateFailed with upstream's text.

        `fits` makes texts or parts of the contents, as the template takes them; `trims` takes
        off what tokenizing adds at both ends.
        """
        context: dict[str, Any] = {
            "messages": self.fitting(messages) if fits else messages,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "enable_thinking": enable_thinking,
        }
        if tools:
            context["tools"] = tools
        context |= extra or {}
        if add_generation_prompt:
            context["add_generation_prompt"] = True
        context = _aliases(context) | context
        try:
            text = self._program.render(context)
        except TemplateError as error:
            raise TemplateFailed(str(error)) from None
        if trims and self.add_bos:
            text = text.removeprefix(self.bos)
        if trims and self.add_eos:
            text = text.removesuffix(self.eos)
        return text

    def generation_prompt(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """What asking for an answer adds to the prompt."""
        without = self.render(messages, add_generation_prompt=False, **options)
        asked = self.render(messages, add_generation_prompt=True, **options)
        shared = 0
        for one, other in zip(without, asked, strict=False):
            if one != other:
                break
            shared += 1
        return asked[shared:]

    @cached_property
    def abilities(self) -> Caps:
        """What the template can do."""
        return find_caps(self._program)

    @property
    def caps(self) -> dict[str, bool]:
        """What the template can do, by upstream's names, in its order."""
        return {name: getattr(self.abilities, name) for name in Caps.__slots__}

    def fitting(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The messages with their content as the template takes it: a text or parts."""
        made = [dict(message) for message in messages]
        if self.abilities.supports_string_content != self.abilities.supports_typed_content:
            fit = _as_text if self.abilities.supports_string_content else _as_parts
            for message in made:
                if "content" in message:
                    message["content"] = fit(message["content"])
        return made


def now_variables() -> dict[str, str]:
    """The variables that tell templates the date."""
    return {"datetime": time.strftime("%b %d %Y"), "date_string": time.strftime("%d %b %Y")}


def _aliases(context: Mapping[str, Any]) -> dict[str, Any]:
    """The other names that templates have for the same settings."""
    made: dict[str, Any] = {}
    kept = context.get("preserve_reasoning")
    if isinstance(kept, bool):
        made |= reasoning_kept(kept)
    effort = context.get("reasoning_effort")
    if isinstance(effort, str):
        made |= {"reasoning_effort": effort, "reasoning_strength": effort}
    return made


def _as_text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    text = ""
    for part in content:
        if part.get("type") == "text":
            text += ("\n" if text else "") + str(part.get("text", ""))
    return text


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
