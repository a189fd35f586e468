"""Shows what a request was read as: `generation_settings`, and the form of /slots and /props."""

from collections.abc import Sequence
from typing import Any

from generated import errors, replies
from generated.requests.completion import CompletionRequest

_CHAT_FORMATS = ("Content-only", "peg-simple", "peg-native", "peg-gemma4", "peg-minimax-m3")


def generation_settings(
    request: CompletionRequest, speculative_types: Sequence[str]
) -> dict[str, Any]:
    """All keys, as in a final native reply; the kinds of speculation are the server's."""
    return replies.generation_settings(
        request,
        **_told_otherwise(request, speculative_types),
        dry_sequence_breakers=list(request.dry_sequence_breakers),
        stop=list(request.stop),
        logit_bias=[
            replies.logit_bias_entry(bias=bias, token=token) for token, bias in request.logit_bias
        ],
        grammar_triggers=list(request.grammar_triggers),
        preserved_tokens=list(request.preserved_tokens),
    )


def generation_settings_metrics(
    request: CompletionRequest, speculative_types: Sequence[str]
) -> dict[str, Any]:
    """The keys that /slots and /props show."""
    told = _told_otherwise(request, speculative_types)
    return replies.generation_settings_metrics(request, **told)


def _told_otherwise(
    request: CompletionRequest, speculative_types: Sequence[str]
) -> dict[str, Any]:
    """What is shown in another form than it was read in."""
    return {
        "max_tokens": request.n_predict,
        "chat_format": _chat_format(request.chat_format),
        "reasoning_in_content": request.stream and request.reasoning_format == "deepseek-legacy",
        "samplers": list(request.samplers),
        "speculative_types": ",".join(speculative_types),
        "lora": [replies.lora_scale(id=id, scale=scale) for id, scale in request.lora],
    }


def _chat_format(number: int) -> str:
    """The format's name; upstream notices an unknown one only while it writes the reply."""
    if not 0 <= number < len(_CHAT_FORMATS):
        raise errors.exception("Unknown chat format")
    return _CHAT_FORMATS[number]
