"""The handler table: upstream's name of each handler, and ours."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from handlers import chat, control, coverage, info, slots, tokens

HANDLERS: dict[str, Callable[..., Awaitable[Response]]] = {
    "get_coverage": coverage.get_coverage,
    "get_coverage_json": coverage.get_coverage_json,
    "get_health": info.get_health,
    "get_lora_adapters": info.get_lora_adapters,
    "get_metrics": info.get_metrics,
    "get_models": info.get_models,
    "get_props": info.get_props,
    "get_slots": info.get_slots,
    "post_apply_template": tokens.post_apply_template,
    "post_chat_completions": chat.post_chat_completions,
    "post_chat_completions_tok": tokens.post_chat_completions_tok,
    "post_completions": chat.post_completions,
    "post_completions_oai": chat.post_completions_oai,
    "post_control": control.post_control,
    "post_detokenize": tokens.post_detokenize,
    "post_lora_adapters": info.post_lora_adapters,
    "post_props": info.post_props,
    "post_slots": slots.post_slots,
    "post_tokenize": tokens.post_tokenize,
}
