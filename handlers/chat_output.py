"""Tells the parts of a chat answer apart while it is generated: reasoning and content."""

from dataclasses import dataclass
from typing import Any

from generated import replies
from generated.absent import ABSENT


@dataclass(frozen=True, slots=True)
class Delta:
    """What one piece of text added to the message."""

    content: str = ""
    reasoning_content: str = ""


class ChatOutput:
    """The message so far; text goes in as it is generated, what it adds comes out.

    This format knows content alone: everything that is generated is the answer.
    """

    has_tool_calls = False

    def __init__(self) -> None:
        self.content = ""

    def add(self, text: str) -> list[Delta]:
        """Take more text; the deltas that it makes."""
        self.content += text
        return [Delta(content=text)] if text else []

    def finish(self, text: str) -> list[Delta]:
        """Take the last of the text and whatever was held back."""
        return self.add(text)

    def message(self) -> dict[str, Any]:
        """OpenAI's message object."""
        return replies.chat_message(content=self.content, reasoning_content=ABSENT)
