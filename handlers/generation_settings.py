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
        **_shared(request, speculative_types),
        dry_sequence_breakers=list(request.dry_sequence_breakers),
        stop=list(request.stop),
        logit_bias=[
            replies.logit_bias_entry(bias=bias, token=token) for token, bias in request.logit_bias
        ],
        grammar=request.grammar,
        grammar_lazy=request.grammar_lazy,
        grammar_triggers=list(request.grammar_triggers),
        preserved_tokens=list(request.preserved_tokens),
    )


def generation_settings_metrics(
    request: CompletionRequest, speculative_types: Sequence[str]
) -> dict[str, Any]:
    """The keys that /slots and /props show."""
    return replies.generation_settings_metrics(**_shared(request, speculative_types))


def _shared(request: CompletionRequest, speculative_types: Sequence[str]) -> dict[str, Any]:
    return {
        "seed": request.seed,
        "temperature": request.temperature,
        "dynatemp_range": request.dynatemp_range,
        "dynatemp_exponent": request.dynatemp_exponent,
        "top_k": request.top_k,
        "top_p": request.top_p,
        "min_p": request.min_p,
        "top_n_sigma": request.top_n_sigma,
        "xtc_probability": request.xtc_probability,
        "xtc_threshold": request.xtc_threshold,
        "typical_p": request.typical_p,
        "repeat_last_n": request.repeat_last_n,
        "repeat_penalty": request.repeat_penalty,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "dry_multiplier": request.dry_multiplier,
        "dry_base": request.dry_base,
        "dry_allowed_length": request.dry_allowed_length,
        "dry_penalty_last_n": request.dry_penalty_last_n,
        "mirostat": request.mirostat,
        "mirostat_tau": request.mirostat_tau,
        "mirostat_eta": request.mirostat_eta,
        "adaptive_target": request.adaptive_target,
        "adaptive_decay": request.adaptive_decay,
        "max_tokens": request.n_predict,
        "n_predict": request.n_predict,
        "n_keep": request.n_keep,
        "n_discard": request.n_discard,
        "ignore_eos": request.ignore_eos,
        "stream": request.stream,
        "n_probs": request.n_probs,
        "min_keep": request.min_keep,
        "chat_format": _chat_format(request.chat_format),
        "reasoning_format": request.reasoning_format,
        "reasoning_in_content": request.stream and request.reasoning_format == "deepseek-legacy",
        "generation_prompt": request.generation_prompt,
        "samplers": list(request.samplers),
        "speculative_types": ",".join(speculative_types),
        "timings_per_token": request.timings_per_token,
        "post_sampling_probs": request.post_sampling_probs,
        "backend_sampling": request.backend_sampling,
        "lora": [replies.lora_scale(id=id, scale=scale) for id, scale in request.lora],
    }


def _chat_format(number: int) -> str:
    """The format's name; upstream notices an unknown one only while it writes the reply."""
    if not 0 <= number < len(_CHAT_FORMATS):
        raise errors.exception("Unknown chat format")
    return _CHAT_FORMATS[number]
