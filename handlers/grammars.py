"""Reads what a request's output has to follow: a grammar, a schema, the triggers of a lazy one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from engine.grammar import Trigger, TriggerKind
from generated import wire
from generated.jsontext import loads
from generated.options import Settings
from handlers.json_schema import schema_to_grammar


def given_grammar(body: object, default: str) -> str:
    """The grammar of a body that has `json_schema` or `grammar`; an empty one is the default.

    Raises ValueError with upstream's text for a schema that has no grammar.
    """
    if not _is_schema(body):
        return wire.value_or(body, "grammar", "") or default
    schema: Any = wire.value_or(body, "json_schema", {}, lambda value: value)
    try:
        return schema_to_grammar(schema)
    except ValueError as error:
        raise ValueError(f'"json_schema": {error}') from None


def default_grammar(settings: Settings) -> str:
    """The grammar of the command line's `--json-schema`; raises ValueError with the reason."""
    if settings.grammar:
        raise ValueError("give a grammar or a JSON schema, not both")
    try:
        return schema_to_grammar(loads(settings.json_schema.encode(errors="surrogateescape")))
    except ValueError as error:
        raise ValueError(f"the JSON schema given with --json-schema: {error}") from None


def begins_in_prompt(body: object, *, by_default: bool) -> bool:
    """Whether the grammar also covers what the chat template put at the end of the prompt."""
    if _is_schema(body) and wire.has(body, "json_schema"):
        return True
    if not wire.value_or(body, "grammar", ""):
        return by_default
    return wire.value_or(body, "grammar_type", "") == "tool_calls"


def given_triggers(
    body: object, encode: Callable[[str], list[int]], preserved: Collection[int]
) -> tuple[object, ...]:
    """The triggers, as `generation_settings` shows them; words of one token become that token.

    Raises ValueError with upstream's text, also if a lazy grammar has none.
    """
    triggers = [
        _trigger(entry, encode, preserved)
        for entry in wire.elements(wire.at(body, "grammar_triggers"))
    ]
    if not triggers and wire.value_or(body, "grammar_lazy", False):
        raise ValueError("Error: no triggers set for lazy grammar!")
    return tuple(triggers)


def engine_triggers(shown: tuple[object, ...]) -> tuple[Trigger, ...]:
    """The same triggers for the engine."""
    return tuple(
        Trigger(
            TriggerKind(wire.get_int32(wire.at(entry, "type"))),
            wire.get_string(wire.at(entry, "value")),
            wire.value_or(entry, "token", -1),
        )
        for entry in shown
    )


def _is_schema(body: object) -> bool:
    return wire.contains(body, "json_schema") and not wire.contains(body, "grammar")


def _trigger(
    entry: object, encode: Callable[[str], list[int]], preserved: Collection[int]
) -> dict[str, object]:
    number = wire.get_int32(wire.at(entry, "type"))
    value = wire.get_string(wire.at(entry, "value"))
    if number not in set(TriggerKind):
        # The reference's process ends here.
        raise ValueError(f"unknown trigger type: {number}")
    kind = TriggerKind(number)
    if kind == TriggerKind.TOKEN:
        token = wire.get_int32(wire.at(entry, "token"))
        return {"type": number, "value": value, "token": token}
    ids = encode(value) if kind == TriggerKind.WORD else []
    if len(ids) != 1:
        return {"type": number, "value": value}
    if ids[0] not in preserved:
        raise ValueError(f"Grammar trigger word should be marked as preserved token: {value}")
    return {"type": int(TriggerKind.TOKEN), "value": value, "token": ids[0]}
