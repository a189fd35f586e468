"""Tells the parts of a chat answer apart while it is generated: reasoning and content."""

from dataclasses import dataclass
from typing import Any

from generated import replies
from generated.absent import ABSENT
from generated.api_error import ApiError
from generated.errors import SERVER
from handlers.chat_peg import Parser, Status, content, end, rest, seq

PURE_CONTENT = seq(content(rest), end)
"""Everything that is generated is the answer."""
_BLANKS = " \n\r\t"


@dataclass(frozen=True, slots=True)
class Delta:
    """What one piece of text added to the message."""

    content: str = ""
    reasoning_content: str = ""


@dataclass(frozen=True, slots=True)
class _Message:
    content: str = ""
    reasoning_content: str = ""


class ChatOutput:
    """The message so far; text goes in as it is generated, what it adds comes out.

    Follows `server-task.cpp: update_chat_msg`: the whole answer, behind the generation
    prompt, is parsed anew with every piece of text, and what a delta takes back is an error.
    """

    has_tool_calls = False

    def __init__(
        self,
        parser: Parser = PURE_CONTENT,
        *,
        format_name: str = "Content-only",
        generation_prompt: str = "",
        keeps_blank_reasoning: bool = False,
        skips_prefill: bool = False,
    ) -> None:
        """`skips_prefill`: what the prompt already holds of the message makes no delta."""
        self._parser = parser
        self._format_name = format_name
        self._text = generation_prompt
        self._generated_from = len(generation_prompt)
        self._keeps_blank_reasoning = keeps_blank_reasoning
        self._message = _Message()
        if skips_prefill:
            self._message = self._parsed(partial=True)

    @property
    def content(self) -> str:
        """The answer so far."""
        return self._message.content

    @property
    def reasoning_content(self) -> str:
        """What the model has thought so far."""
        return self._message.reasoning_content

    def add(self, text: str) -> list[Delta]:
        """Take more text; the deltas that it makes. ApiError if it can't be of the format."""
        return self._update(text, partial=True)

    def finish(self, text: str) -> list[Delta]:
        """Take the last of the text and whatever was held back."""
        return self._update(text, partial=False)

    def message(self) -> dict[str, Any]:
        """OpenAI's message object; what makes no message is shown as it was generated."""
        if self._message == _Message():
            return replies.chat_message(
                content=self._text[self._generated_from :], reasoning_content=ABSENT
            )
        return replies.chat_message(
            content=self.content, reasoning_content=self.reasoning_content or ABSENT
        )

    def _update(self, text: str, *, partial: bool) -> list[Delta]:
        self._text += text
        new = self._parsed(partial=partial)
        if new == _Message():
            return []
        old, self._message = self._message, new
        deltas = []
        if old.reasoning_content != new.reasoning_content:
            added = _added(old.reasoning_content, new.reasoning_content)
            deltas.append(Delta(reasoning_content=added))
        if old.content != new.content:
            deltas.append(Delta(content=_added(old.content, new.content)))
        return deltas

    def _parsed(self, *, partial: bool) -> _Message:
        result = self._parser(self._text, 0)
        if result.status is Status.FAIL and not (partial and result.end > 0):
            raise ApiError(
                SERVER,
                "The model produced output that does not match the expected"
                f" {self._format_name} format",
            )
        parts = {"content": "", "reasoning": ""}
        for span in result.spans:
            parts[span.tag] += self._text[span.start : span.end]
        if not self._keeps_blank_reasoning and not parts["reasoning"].strip(_BLANKS):
            parts["reasoning"] = ""
        return _Message(parts["content"], parts["reasoning"])


def _added(old: str, new: str) -> str:
    """What `new` has more than `old`."""
    if new.startswith(old):
        return new[len(old) :]
    if old.startswith(new):
        return ""
    raise ApiError(SERVER, f"Invalid diff: '{old}' not found at start of '{new}'")
