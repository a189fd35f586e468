"""The tokenizer of a Hugging Face directory, behind the interface GGUF vocabularies have."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from engine.tokenizer.special_ids import SpecialIds, end_tokens, find_by_text, not_ends
from engine.tokenizer.text import decode, lenient
from engine.tokenizer.tokenizer import Tokenizer
from engine.tokenizer.vocab import (
    SPACE,
    UnsupportedTokenizer,
    VocabType,
    as_ids,
    byte_value,
    to_bytes,
    unalphabet,
)

_TYPES: dict[str, VocabType] = {"BPE": "bpe", "Unigram": "ugm", "WordPiece": "wpm"}


class HuggingFaceTokenizer(Tokenizer):
    """`tokenizer.json` run by the `tokenizers` library.

    Tokens added as special are control tokens, other added tokens user-defined ones. Ends are
    the config's eos token, `eos_token_id` of `generation_config.json` and `config.json`, and
    the special tokens that llama.cpp knows by their text.
    """

    def __init__(self, path: Path) -> None:
        spec = _read_json(path / "tokenizer.json")
        if not spec:
            raise UnsupportedTokenizer(f"no tokenizer.json in {path}")
        kind = (spec.get("model") or {}).get("type") or "BPE"
        if kind not in _TYPES:
            raise UnsupportedTokenizer(f"unknown tokenizer: '{kind}'")
        self._library = Library.from_str(json.dumps(spec))
        self._library.no_padding()
        self._library.no_truncation()
        # Which special tokens a text may hold is a setting of the library, not an argument.
        self._lock = threading.Lock()
        config = _read_json(path / "tokenizer_config.json")
        decoders = json.dumps(spec.get("decoder"))
        self._byte_level = "ByteLevel" in decoders
        self._strips_space = '"Strip"' in decoders or '"prepend_scheme": "first"' in decoders
        bpe_of_sentencepiece = kind == "BPE" and not self._byte_level
        self.vocab_type = "spm" if bpe_of_sentencepiece else _TYPES[kind]
        # Ids may have holes, which print as nothing.
        vocab = self._library.get_vocab(with_added_tokens=True)
        self.n_tokens = max(vocab.values(), default=-1) + 1
        self._ids: dict[str, int] = vocab
        self._texts = [""] * self.n_tokens
        for text, id in vocab.items():
            self._texts[id] = text
        added = spec.get("added_tokens") or []
        self._control = {token["id"] for token in added if token["special"]}
        self._user_defined = {token["id"] for token in added if not token["special"]}
        self.ids = SpecialIds()
        for role, key in _ROLES:
            self._set_role(role, config.get(key))
        unk = (spec.get("model") or {}).get("unk_token")
        if self.ids.unk is None and unk in vocab:
            self.ids.unk = vocab[unk]
        special = {self._texts[id]: id for id in self._control}
        find_by_text(self.ids, special)
        self.eog = self._find_eog(path, special)
        self._prefix, self._suffix = self._surroundings(config)
        self.add_bos = bool(self._prefix)
        self.add_eos = bool(self._suffix) and self.vocab_type != "wpm"
        self.add_sep = bool(self._suffix) and self.vocab_type == "wpm"
        newline = self.encode("\n", add_special=False, parse_special=False)
        self.ids.nl = newline[-1] if newline else self.ids.pad
        generation = _read_json(path / "generation_config.json")
        self.suppress = tuple(as_ids(generation.get("suppress_tokens") or (), self.n_tokens))
        self.chat_template = _chat_template(path, config)
        self._pieces: list[bytes | None] = [None] * self.n_tokens

    def encode(self, text: str | bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        # The library takes only valid text.
        clean = lenient(decode(text)).encode("utf-8", "replace").decode()
        with self._lock:
            self._library.encode_special_tokens = not parse_special
            ids: list[int] = self._library.encode(clean, add_special_tokens=False).ids
        return [*self._prefix, *ids, *self._suffix] if add_special else ids

    def piece(self, token: int, *, special: bool = True) -> bytes:
        if token < 0:
            raise IndexError(token)
        if not special and token in self._control:
            return b""
        piece = self._pieces[token]
        if piece is None:
            piece = self._pieces[token] = self._make_piece(token)
        return piece

    def detokenize(self, tokens: Sequence[int], *, special: bool) -> bytes:
        text = self.decode(tokens, special=special)
        return text.removeprefix(b" ") if self._strips_space else text

    def token_text(self, token: int) -> str:
        return self._texts[token]

    def text_to_token(self, text: str) -> int | None:
        return self._ids.get(text)

    def token_score(self, token: int) -> float:
        return 0.0

    def is_control(self, token: int) -> bool:
        return token in self._control

    def is_user_defined(self, token: int) -> bool:
        return token in self._user_defined

    def is_unused(self, token: int) -> bool:
        return not self._texts[token]

    def is_byte(self, token: int) -> bool:
        return not self._byte_level and byte_value(self._texts[token]) is not None

    def _make_piece(self, token: int) -> bytes:
        text = self._texts[token]
        if token in self._control or token in self._user_defined:
            return to_bytes(text)
        if self._byte_level:
            return unalphabet(text)
        return byte_value(text) or to_bytes(text.replace(SPACE, " "))

    def _set_role(self, role: str, value: Any) -> None:
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str) and text in self._ids:
            setattr(self.ids, role, self._ids[text])

    def _find_eog(self, path: Path, special: dict[str, int]) -> frozenset[int]:
        eog, _ = end_tokens(self.ids, special)
        for text in not_ends(eog, {id: self._texts[id] for id in eog}):
            eog.discard(special[text])
        for name in ("generation_config.json", "config.json"):
            value = _read_json(path / name).get("eos_token_id")
            values = value if isinstance(value, list) else [value]
            listed: list[int] = [id for id in values if isinstance(id, int)]
            eog.update(as_ids(listed, self.n_tokens))
            if self.ids.eos is None and listed and 0 <= listed[0] < self.n_tokens:
                self.ids.eos = listed[0]
        return frozenset(eog)

    def _surroundings(self, config: dict[str, Any]) -> tuple[list[int], list[int]]:
        """What the post-processor puts around a text, unless the config says otherwise."""
        probe = self._library.encode("a", add_special_tokens=False).ids
        whole = self._library.encode("a", add_special_tokens=True).ids
        at = next((i for i in range(len(whole)) if whole[i : i + len(probe)] == probe), 0)
        prefix, suffix = whole[:at], whole[at + len(probe) :]
        for key, id, ids in (
            ("add_bos_token", self.ids.bos, prefix),
            ("add_eos_token", self.ids.eos, suffix),
        ):
            wanted = config.get(key)
            if wanted is False:
                ids.clear()
            elif wanted and not ids and id is not None:
                ids.append(id)
        return prefix, suffix


_ROLES = (
    ("bos", "bos_token"),
    ("eos", "eos_token"),
    ("unk", "unk_token"),
    ("pad", "pad_token"),
    ("mask", "mask_token"),
    ("sep", "sep_token"),
    ("bos", "cls_token"),
)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UnsupportedTokenizer(f"{path} is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _chat_template(path: Path, config: dict[str, Any]) -> str | None:
    """`chat_template.jinja`, or the config's template, of several the one named default."""
    file = path / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {item.get("name"): item.get("template") for item in value}
        value = named.get("default")
    return value if isinstance(value, str) else None
