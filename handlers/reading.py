"""Reads the completion fields that are more than a conversion; the generated reader calls it."""

from collections.abc import Iterable, Sequence

from engine.tokenizer import Tokenizer
from generated import errors, samplers, wire
from generated.jsontext import Json
from generated.options import Settings
from handlers.grammars import given_grammar, given_triggers

_REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
_strings = wire.get_list(wire.get_string)


class CompletionReading:
    """The hand-written part of `read_completion`, for one request.

    Every method takes the body and the spelling that is present, and raises ValueError with
    upstream's text; what isn't supported yet is an ApiError of kind not_supported.
    """

    def __init__(self, tokenizer: Tokenizer, settings: Settings) -> None:
        self._tokenizer = tokenizer
        self._settings = settings
        self._preserved: tuple[int, ...] = ()
        self._reasoning_ends: tuple[tuple[int, ...], ...] = ()

    def response_fields(self, body: object, name: str) -> tuple[str, ...]:
        return tuple(wire.value_or(body, name, [], _strings))

    def dry_base(self, body: object, name: str) -> float:
        value = wire.get_float32(wire.at(body, name))
        return self._settings.dry_base if value < 1.0 else value

    def lora(self, body: object, name: str) -> tuple[tuple[int, float], ...]:
        entries = wire.at(body, name)
        if not isinstance(entries, list):
            raise ValueError(
                "Error: 'lora' must be an array of objects with 'id' and 'scale' fields"
            )
        return lora_scales(entries)

    def dry_sequence_breakers(self, body: object, name: str) -> tuple[str, ...]:
        breakers = wire.value_or(body, name, [], _strings)
        if not breakers:
            raise ValueError(
                "Error: dry_sequence_breakers must be a non-empty array of strings"
            )
        return tuple(breakers)

    def grammar(self, body: object, name: str) -> str:
        return given_grammar(body, self._settings.grammar)

    def chat_format(self, body: object, name: str) -> int:
        return wire.get_int32(wire.at(body, name))

    def reasoning_format(self, body: object, name: str) -> str:
        return checked_reasoning_format(wire.get_string(wire.at(body, name)))

    def chat_parser(self, body: object, name: str) -> str:
        if wire.get_string(wire.at(body, name)):
            raise errors.field_deferred(name)
        return ""

    def continue_final_message(self, body: object, name: str) -> bool:
        return continues(wire.at(body, name))

    def preserved_tokens(self, body: object, name: str) -> tuple[int, ...]:
        tokens = [self._encode(wire.get_string(text)) for text in _items(wire.at(body, name))]
        self._preserved = tuple(sorted({ids[0] for ids in tokens if len(ids) == 1}))
        return self._preserved

    def grammar_triggers(self, body: object, name: str) -> tuple[object, ...]:
        return given_triggers(body, self._encode, self._preserved)

    def reasoning_budget_start_tag(self, body: object, name: str) -> tuple[int, ...]:
        return tuple(self._encode(wire.get_string(wire.at(body, name))))

    def reasoning_budget_end_tags(
        self, body: object, name: str
    ) -> tuple[tuple[int, ...], ...]:
        plural = "reasoning_budget_end_tags"
        if wire.contains(body, plural):
            tags = [wire.get_string(tag) for tag in wire.elements(wire.at(body, plural))]
        else:
            tags = [wire.get_string(wire.at(body, name))]
        self._reasoning_ends = tuple(tuple(self._encode(tag)) for tag in tags if tag)
        return self._reasoning_ends

    def reasoning_budget_message(self, body: object, name: str) -> tuple[int, ...]:
        """What is forced at the end: the message, then the first of the closing tags."""
        if not self._reasoning_ends:
            return ()
        message = wire.value_or(body, name, "")
        return (*(self._encode(message) if message else ()), *self._reasoning_ends[0])

    def logit_bias(self, body: object, name: str) -> tuple[tuple[int, float], ...]:
        given = wire.at(body, name)
        pairs: list[tuple[int, float]] = []
        if isinstance(given, list):
            entries = [e for e in given if isinstance(e, list) and len(e) == 2]
        elif isinstance(given, dict):
            entries = [[_token_or_text(key), value] for key, value in given.items()]
        else:
            entries = []
        for token, value in entries:
            bias = _bias(value)
            if bias is not None:
                pairs += [(t, bias) for t in self._tokens(token)]
        return tuple(pairs)

    def ignore_eos(self, body: object, name: str) -> bool:
        return wire.get_bool(wire.at(body, name))

    def stop(self, body: object, name: str) -> tuple[str, ...]:
        given = wire.at(body, name)
        words: list[str] = []
        if isinstance(given, list):
            # Only empty containers and null are passed over: an empty text is a stop word.
            words = [wire.get_string(w) for w in given if w not in (None, [], {})]
        elif isinstance(given, str):
            words = [given]
        return tuple(words) or tuple(self._settings.antiprompt)

    def samplers(self, body: object, name: str) -> tuple[str, ...]:
        given = wire.at(body, name)
        if isinstance(given, list):
            return samplers_by_name(_strings(given))
        if isinstance(given, str):
            return samplers_by_letter(given)
        return tuple(self._settings.samplers)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special=False, parse_special=True)

    def _tokens(self, token: Json) -> Sequence[int]:
        """The token ids that one entry of `logit_bias` names."""
        if isinstance(token, str):
            return self._tokenizer.encode(token, add_special=False, parse_special=False)
        if isinstance(token, bool) or not isinstance(token, int):
            return ()
        identifier = wire.get_int32(token)
        return (identifier,) if 0 <= identifier < self._tokenizer.n_tokens else ()


def _items(value: object) -> Sequence[object]:
    """What upstream's JSON library loops over: an object's values, and a scalar as one item."""
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else [value]


def lora_scales(entries: Sequence[Json]) -> tuple[tuple[int, float], ...]:
    """(id, scale) of every entry, sorted by id, the last one winning."""
    scales = {
        wire.value_or(entry, "id", -1): wire.value_or(entry, "scale", 0.0) for entry in entries
    }
    return tuple(sorted(scales.items()))


def samplers_by_name(names: Iterable[str]) -> tuple[str, ...]:
    """Samplers by any of their names, in any case; unknown ones are left out."""
    lowered = ("".join(c.lower() if c.isascii() else c for c in name) for name in names)
    return tuple(samplers.BY_NAME[name] for name in lowered if name in samplers.BY_NAME)


def samplers_by_letter(letters: str) -> tuple[str, ...]:
    """Samplers by their letters; unknown ones are left out."""
    return tuple(samplers.BY_LETTER[letter] for letter in letters if letter in samplers.BY_LETTER)


def checked_reasoning_format(name: str) -> str:
    """The name itself; ValueError with upstream's text if there is no such format."""
    if name not in _REASONING_FORMATS:
        raise ValueError(f"Unknown reasoning format: {name}")
    return name


def continues(value: object) -> bool:
    """Whether `continue_final_message` asks for it."""
    return value is True or value in ("reasoning_content", "content")


def _token_or_text(key: str) -> int | str:
    """An object key that is a whole number, as strtol reads it, or the text itself."""
    stripped = key.lstrip(" \t\n\v\f\r")
    digits = stripped[1:] if stripped[:1] in ("+", "-") else stripped
    if digits.isascii() and digits.isdigit():
        return max(-(2**63), min(2**63 - 1, int(stripped)))
    return 0 if key == "" else key


def _bias(value: Json) -> float | None:
    """The bias as float32; false bans the token, anything else but a number says nothing."""
    if value is False:
        return float("-inf")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return wire.get_float32(value)
    return None
