"""Which tokens begin, end and separate texts: from metadata, then by their text as llama.cpp does.

Where llama.cpp takes whichever of several texts its hash table yields first, the first listed here
that the vocabulary holds is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.tokenizer.vocab import CONTROL, NORMAL, UNUSED, USER_DEFINED, Vocab

_EOT = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
)
_EOM = ("<|eom_id|>",)
_FIM_PRE = (
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
)
_FIM_SUF = (
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
)
_FIM_MID = (
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
)
_FIM_PAD = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
_FIM_REP = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_FIM_SEP = ("<|file_sep|>",)

#: Texts that end generation wherever a vocabulary holds them.
EOG_TEXTS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
)

#: Control tokens of gpt-oss that are part of the text it writes.
_ALWAYS_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


@dataclass
class SpecialIds:
    """Ids of the tokens with a role, None where a vocabulary has none."""

    bos: int | None = None
    eos: int | None = None
    eot: int | None = None
    eom: int | None = None
    unk: int | None = None
    sep: int | None = None
    pad: int | None = None
    mask: int | None = None
    nl: int | None = None
    fim_pre: int | None = None
    fim_suf: int | None = None
    fim_mid: int | None = None
    fim_pad: int | None = None
    fim_rep: int | None = None
    fim_sep: int | None = None


#: Metadata key of each role, in the order read; the last three are older names.
_KEYS = (
    ("bos", "bos"),
    ("eos", "eos"),
    ("eot", "eot"),
    ("eom", "eom"),
    ("unknown", "unk"),
    ("seperator", "sep"),
    ("padding", "pad"),
    ("mask", "mask"),
    ("fim_pre", "fim_pre"),
    ("fim_suf", "fim_suf"),
    ("fim_mid", "fim_mid"),
    ("fim_pad", "fim_pad"),
    ("fim_rep", "fim_rep"),
    ("fim_sep", "fim_sep"),
    ("prefix", "fim_pre"),
    ("suffix", "fim_suf"),
    ("middle", "fim_mid"),
)


def read_ids(ids: SpecialIds, metadata: Mapping[str, Any], n_tokens: int) -> None:
    """Take the ids that metadata names; an id outside the vocabulary leaves the default."""
    for key, role in _KEYS:
        default = getattr(ids, role)
        if default is not None and default >= n_tokens:
            setattr(ids, role, None)
        value = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if value is not None and 0 <= int(value) < n_tokens:
            setattr(ids, role, int(value))


def find_by_text(ids: SpecialIds, token_ids: Mapping[str, int]) -> list[int]:
    """Fill the roles still without a token by token text; the tokens found."""
    found = []
    for role, texts in (
        ("eot", _EOT),
        ("eom", _EOM),
        ("fim_pre", _FIM_PRE),
        ("fim_suf", _FIM_SUF),
        ("fim_mid", _FIM_MID),
        ("fim_pad", _FIM_PAD),
        ("fim_rep", _FIM_REP),
        ("fim_sep", _FIM_SEP),
    ):
        if getattr(ids, role) is None:
            token = next((token_ids[text] for text in texts if text in token_ids), None)
            if token is not None:
                setattr(ids, role, token)
                found.append(token)
    return found


def end_tokens(ids: SpecialIds, token_ids: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """Every token that ends generation, and those among them found by their text."""
    by_text = {token_ids[text] for text in EOG_TEXTS if text in token_ids}
    roles = (ids.fim_pad, ids.fim_rep, ids.fim_sep, ids.eos, ids.eot, ids.eom)
    return by_text | {token for token in roles if token is not None}, by_text


def not_ends(eog: Iterable[int], texts: Mapping[int, str]) -> tuple[str, ...]:
    """Texts that look like ends but aren't, in the company of the other ends of this vocabulary."""
    held = {texts[token] for token in eog}
    wrong: list[str] = []
    calls = held & {"<|call|>", "<|calls|>"}
    if "<|end|>" in held and calls and held & {"<|return|>", "<|flush|>"}:
        wrong.append("<|end|>")
    if "<|tool_response>" in held and "</s>" in held:
        wrong.append("</s>")
    return tuple(wrong)


def find_special(ids: SpecialIds, vocab: Vocab) -> frozenset[int]:
    """Complete `ids` by token text, mend attributes, and give the end-of-generation tokens."""
    for token in find_by_text(ids, vocab.ids):
        vocab.attributes[token] |= CONTROL
    for token, attributes in enumerate(vocab.attributes):
        if attributes & CONTROL and "unused" in vocab.texts[token]:
            vocab.attributes[token] |= UNUSED
    eog, by_text = end_tokens(ids, vocab.ids)
    for token in by_text:
        vocab.attributes[token] |= CONTROL
    for text in _ALWAYS_SHOWN:
        if text in vocab.ids:
            vocab.attributes[vocab.ids[text]] = USER_DEFINED
    for text in not_ends(eog, {token: vocab.texts[token] for token in eog}):
        token = vocab.ids[text]
        eog.discard(token)
        vocab.attributes[token] = USER_DEFINED if text == "<|end|>" else NORMAL
    return frozenset(eog)
