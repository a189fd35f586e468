"""Renders a model's chat template, with the environment that such templates expect."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""What is used for a model that brings no template."""


class TemplateFailed(Exception):
    """A template that can't be parsed or rendered. `str()` is one line."""


class ChatTemplate:
    """One template and the model's texts that it may use."""

    def __init__(
        self, source: str, *, bos: str, eos: str, add_bos: bool = False, add_eos: bool = False
    ) -> None:
        """`add_bos`, `add_eos`: tokenizing adds them, so the rendered text must not.

        Raises TemplateFailed for a template that can't be parsed.
        """
        self.source = source if source and source != "chatml" else CHATML
        self.bos = bos
        self.eos = eos
        self.add_bos = add_bos
        self.add_eos = add_eos
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(self.source)
        except TemplateError as error:
            raise TemplateFailed(f"the chat template can't be parsed: {error}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        enable_thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt; raises TemplateFailed with the template's own words where it has some."""
        now = datetime.now()
        context: dict[str, Any] = {
            "messages": messages,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "enable_thinking": enable_thinking,
            "datetime": now.strftime("%b %d %Y"),
            "date_string": now.strftime("%d %b %Y"),
            **(extra or {}),
        }
        if tools:
            context["tools"] = tools
        if add_generation_prompt:
            context["add_generation_prompt"] = True
        try:
            text = self._template.render(context)
        except Exception as error:
            raise TemplateFailed(str(error) or type(error).__name__) from None
        if self.add_bos and self.bos and text.startswith(self.bos):
            text = text[len(self.bos) :]
        if self.add_eos and self.eos and text.endswith(self.eos):
            text = text[: -len(self.eos)]
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
    def caps(self) -> dict[str, bool]:
        """What the template can do, found by rendering it."""
        text = self._probe([{"role": "user", "content": "probe-text"}])
        typed = self._probe(
            [{"role": "user", "content": [{"type": "text", "text": "probe-typed"}]}]
        )
        system = self._probe(
            [{"role": "system", "content": "probe-system"}, {"role": "user", "content": "u"}]
        )
        return {
            "supports_object_arguments": False,
            "supports_parallel_tool_calls": False,
            "supports_preserve_reasoning": False,
            "supports_reasoning_effort": "reasoning_effort" in self.source,
            "supports_string_content": "probe-text" in text,
            "supports_system_role": "probe-system" in system,
            "supports_tool_calls": False,
            "supports_tools": False,
            "supports_typed_content": "probe-typed" in typed and "probe-text" not in text,
        }

    def _probe(self, messages: Sequence[Mapping[str, Any]]) -> str:
        try:
            return self.render(messages, add_generation_prompt=False)
        except TemplateFailed:
            return ""


def _tojson(value: Any, indent: int | None = None, **options: Any) -> str:
    """JSON as chat templates want it: nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _raise_exception(message: str) -> None:
    raise TemplateFailed(message)
