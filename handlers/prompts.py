"""Turns the `prompt` of a request into token ids: texts, ids, mixed lists, and lists of prompts."""

from engine.tokenizer import Tokenizer
from generated import errors, wire

_PROMPT_STRING = "prompt_string"
_MULTIMODAL = "multimodal_data"


def tokenize_prompts(
    tokenizer: Tokenizer, prompt: object, *, add_special: bool = True, parse_special: bool = True
) -> list[list[int]]:
    """The token ids of every prompt in `prompt`; ApiError or JsonError as upstream has them."""
    if isinstance(prompt, list) and not any(_is_integer(p) for p in prompt):
        prompts = [_tokenize_one(tokenizer, p, add_special, parse_special) for p in prompt]
    else:
        prompts = [_tokenize_one(tokenizer, prompt, add_special, parse_special)]
    if not prompts:
        raise errors.prompt_empty()
    return prompts


def tokenize_mixed(
    tokenizer: Tokenizer, prompt: object, *, add_special: bool, parse_special: bool
) -> list[int]:
    """The ids of a text, or of a list of texts and ids; only a text at the start gets a BOS."""
    if not isinstance(prompt, list):
        text = wire.get_string(prompt)
        return tokenizer.encode(text, add_special=add_special, parse_special=parse_special)
    tokens: list[int] = []
    for position, part in enumerate(prompt):
        if isinstance(part, str):
            special = add_special and position == 0
            tokens += tokenizer.encode(part, add_special=special, parse_special=parse_special)
        else:
            tokens.append(wire.get_int32(part))
    return tokens


def _tokenize_one(
    tokenizer: Tokenizer, prompt: object, add_special: bool, parse_special: bool
) -> list[int]:
    if isinstance(prompt, list) and all(_is_integer(p) for p in prompt):
        return [wire.get_int32(p) for p in prompt]
    if isinstance(prompt, str) or (isinstance(prompt, list) and _is_mixed(prompt)):
        return tokenize_mixed(
            tokenizer, prompt, add_special=add_special, parse_special=parse_special
        )
    if isinstance(prompt, dict) and _PROMPT_STRING in prompt:
        if _MULTIMODAL in prompt:
            raise errors.prompt_multimodal()
        return tokenize_mixed(
            tokenizer, prompt[_PROMPT_STRING], add_special=add_special, parse_special=parse_special
        )
    raise errors.prompt_element()


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_mixed(parts: list[object]) -> bool:
    return any(isinstance(p, str) for p in parts) and any(_is_integer(p) for p in parts)
