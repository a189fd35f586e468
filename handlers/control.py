"""POST /v1/chat/completions/control: acts on a completion while it runs."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from engine.slots.pool import ReasoningEnd
from generated import errors, replies
from generated.absent import ABSENT
from generated.http import JsonResponse
from generated.requests.control import ControlRequest
from handlers.server import Server

_MESSAGES: dict[ReasoningEnd, str] = {
    "not_running": "no active completion for this id",
    "not_controlled": "reasoning control not enabled for this completion",
}


async def post_control(server: Server, request: Request, body: ControlRequest) -> Response:
    """End the reasoning of a completion; also a success if none is going on."""
    if not body.id:
        raise errors.control_without_id()
    if body.action != "reasoning_end":
        raise errors.control_action_unknown()
    outcome = await asyncio.wrap_future(server.engine.end_reasoning(body.id))
    message = _MESSAGES.get(outcome, ABSENT)
    return JsonResponse(replies.control(success=outcome == "asked", message=message))
