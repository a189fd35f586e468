"""The engine on a made model, without HTTP."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from engine.loading import load_model
from tests.made_models import write
from tests.stepped import Server
from tests.tiny_llama import N_VOCAB, ByteVocabulary, TinyModel


class MadeVocabulary(ByteVocabulary):
    """As many tokens as a made model has; none of them ends a text."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def piece(self, token: int, *, special: bool) -> bytes:
        """A byte, or a mark for all beyond."""
        return bytes([token]) if token < 256 else b"#"

    def is_eog(self, token: int) -> bool:
        """Nothing does."""
        return False


@cache
def made(name: str) -> TinyModel:
    """A made model as the engine is given it, for the test's own thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.gguf"
        write(name, path)
        loaded = load_model(path)
    vocabulary = MadeVocabulary(loaded.n_vocab)
    assert vocabulary.n_tokens >= N_VOCAB
    return TinyModel(loaded.model, loaded.n_ctx_train, vocabulary)


def made_server(name: str, **changes: Any) -> Server:
    """A scheduler of its own for it."""
    return Server(made(name), **changes)
