"""What every handler is given: the settings, the engine and what was derived from both at start."""

import secrets
import string
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.engine import Engine
from engine.loading import LoadedModel
from engine.tokenizer import Tokenizer
from generated.options import Settings
from handlers.chat_template import ChatTemplate
from handlers.mailbox import Mailbox

_TOOL_USE = "tokenizer.chat_template.tool_use"
"""Where a GGUF file keeps a template of its own for tools."""
_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def random_string() -> str:
    """32 random letters and digits, as upstream's ids have them."""
    return "".join(secrets.choice(_LETTERS) for _ in range(32))


@dataclass
class Server:
    """One server with one model."""

    settings: Settings
    engine: Engine
    started: int = field(default_factory=lambda: int(time.time()))
    draining: bool = False
    """Whether only what is running is served to its end."""
    unusable: str = ""
    """Why the loaded model can't be served."""
    media_marker: str = field(default_factory=lambda: f"<__media_{random_string()}__>")

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The template given on the command line, else the model's; needs the loaded model."""
        tokenizer = self.tokenizer
        given = self.settings.chat_template
        return ChatTemplate(
            given or self.model.chat_template or "",
            bos=_text(tokenizer, tokenizer.bos),
            eos=_text(tokenizer, tokenizer.eos),
            add_bos=tokenizer.add_bos,
            add_eos=tokenizer.add_eos,
            tool_use="" if given else self.model.metadata.get(_TOOL_USE, ""),
        )

    @cached_property
    def mailbox(self) -> Mailbox:
        """Where the engine's thread puts events; to be asked for on the event loop first."""
        return Mailbox()

    @property
    def model(self) -> LoadedModel:
        """What is known of the model; RuntimeError before it is loaded."""
        return self.engine.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, for any thread; RuntimeError before it is loaded."""
        return self.engine.tokenizer

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones shown; bytes that are no characters are escaped."""
        return self.tokenizer.decode(tokens, special=True).decode("utf-8", "surrogateescape")

    @property
    def failure(self) -> str:
        """Why this server can't go on, in one line; empty while it can."""
        return self.unusable or (self.engine.failure if self.engine.state == "failed" else "")

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded and the engine alive."""
        return self.engine.state == "ready"

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names given on the command line, sorted; without any, the model's path."""
        return tuple(sorted(self.settings.model_alias)) or (str(self.settings.model),)

    @property
    def model_name(self) -> str:
        """The name that replies carry."""
        return self.aliases[0]


def _text(tokenizer: Tokenizer, token: int | None) -> str:
    """A special token's text, empty if the model has no such token."""
    return "" if token is None else tokenizer.piece(token).decode("utf-8", "replace")
