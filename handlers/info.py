"""GET /health, /props, /models, /slots, /metrics: what the server says of itself."""

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from engine.slots.slot import SlotView
from generated import errors, metrics, replies
from generated.absent import ABSENT
from generated.build import BUILD_INFO
from generated.http import JsonResponse
from generated.jsontext import Json
from generated.requests.completion import CompletionRequest, read_completion
from handlers.figures import Figures
from handlers.generation_settings import generation_settings_metrics
from handlers.reading import CompletionReading, lora_scales
from handlers.results import now
from handlers.server import Server
from handlers.speculation import speculative_types

_METRICS_TYPE = "text/plain; version=0.0.4"


async def get_health(server: Server, request: Request) -> Response:
    """Ready: a server that still loads, or whose engine failed, never gets here."""
    return JsonResponse(replies.health())


async def get_props(server: Server, request: Request) -> Response:
    """The server's settings as clients want to know them."""
    settings, model = server.settings, server.model
    template = server.chat_template
    tool_use = model.metadata.get("tokenizer.chat_template.tool_use", "")
    defaults = replies.default_generation_settings(
        params=generation_settings_metrics(default_request(server), ("none",)),
        n_ctx=server.engine.sizes.n_ctx_slot,
    )
    return JsonResponse(
        replies.props(
            default_generation_settings=defaults,
            total_slots=server.engine.sizes.n_slots,
            model_alias=server.model_name,
            model_ftype=model.ftype,
            model_path=str(settings.model),
            modalities=replies.modalities(vision=False, video=False, audio=False),
            media_marker=server.media_marker,
            endpoint_slots=settings.endpoint_slots,
            endpoint_props=settings.endpoint_props,
            endpoint_metrics=settings.endpoint_metrics,
            ui=settings.ui,
            ui_settings={},
            chat_template=template.source,
            chat_template_caps=template.for_tools.caps,
            bos_token=template.bos,
            eos_token=template.eos,
            build_info=BUILD_INFO,
            is_sleeping=False,
            cors_proxy_enabled=False,
            chat_template_tool_use=tool_use if tool_use and settings.use_jinja else ABSENT,
        )
    )


async def post_props(server: Server, request: Request) -> Response:
    """Accepted, as upstream accepts it, without anything to change."""
    return JsonResponse(replies.success())


async def get_models(server: Server, request: Request) -> Response:
    """The one model, in OpenAI's and in Ollama's shape."""
    model = server.model
    meta = replies.model_meta(
        vocab_type=model.vocab_type != 0,
        n_vocab=model.n_vocab,
        n_ctx=server.engine.sizes.n_ctx_slot,
        n_ctx_train=model.n_ctx_train,
        n_embd=model.n_embd,
        n_params=model.n_params,
        size=model.size_bytes,
        ftype=model.ftype,
    )
    entry = replies.ollama_model(
        name=server.model_name,
        model=server.model_name,
        capabilities=["completion"],
        details=replies.model_details(),
    )
    info = replies.model_info(
        id=server.model_name,
        aliases=list(server.aliases),
        tags=sorted(server.settings.model_tags),
        created=now(),
        meta=meta,
    )
    return JsonResponse(replies.models(models=[entry], data=[info]))


async def get_slots(server: Server, request: Request) -> Response:
    """Every slot; with `fail_on_no_slot`, an error when none is free."""
    views = await asyncio.wrap_future(server.engine.slots())
    if request.query_params.get("fail_on_no_slot") and all(v.is_processing for v in views):
        raise errors.no_slot_available()
    types = speculative_types(server.settings)
    return JsonResponse([_slot(view, types) for view in views])


async def get_metrics(server: Server, request: Request) -> Response:
    """Prometheus text; the rates are those since the last time."""
    counts = await asyncio.wrap_future(server.engine.metrics(reset_recent=True))
    return Response(
        metrics.render(Figures(counts)),
        headers={
            "Content-Type": _METRICS_TYPE,
            "Process-Start-Time-Unix": str(server.started),
        },
    )


async def get_lora_adapters(server: Server, request: Request) -> Response:
    """The loaded adapters: none can be, yet."""
    return JsonResponse([])


async def post_lora_adapters(server: Server, request: Request, body: Json) -> Response:
    """Sets the scales of adapters; ids without an adapter are passed over, as upstream does."""
    if not isinstance(body, list):
        raise errors.lora_body_not_array()
    lora_scales(body)
    return JsonResponse(replies.success())


def default_request(server: Server) -> CompletionRequest:
    """What an empty body is read as, in the form that upstream shows for a whole server."""
    read = read_completion(
        {}, server.settings, CompletionReading(server.tokenizer, server.settings)
    )
    # Upstream shows these as they are before the server's own settings reach a request.
    return replace(read, n_predict=-1, n_keep=0, reasoning_format="none")


def _slot(view: SlotView, speculative_types: tuple[str, ...]) -> dict[str, Any]:
    started = view.task is not None
    read = view.task.carried if view.task else None
    return replies.slot(
        id=view.id,
        n_ctx=view.n_ctx,
        speculative=view.speculates,
        is_processing=view.is_processing,
        id_task=ABSENT if view.id_task is None else view.id_task,
        n_prompt_tokens=view.n_prompt_tokens if started else ABSENT,
        n_prompt_tokens_processed=view.n_prompt_tokens_processed if started else ABSENT,
        n_prompt_tokens_cache=view.n_prompt_tokens_cache if started else ABSENT,
        params=generation_settings_metrics(read, speculative_types) if read else ABSENT,
        next_token=[
            replies.next_token(
                has_next_token=view.has_next_token,
                has_new_line=view.has_new_line,
                n_remain=view.n_remain,
                n_decoded=view.n_decoded,
            )
        ]
        if started
        else ABSENT,
    )
