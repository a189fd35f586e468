"""POST /v1/completions and /v1/chat/completions: OpenAI's shapes around the same completion."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from generated.jsontext import Json
from handlers.chat_body import completion_body
from handlers.completion import NATIVE, Api, complete
from handlers.results import ChatWriter, OpenAiWriter
from handlers.server import Server, random_string


async def post_completions(server: Server, request: Request, body: Json) -> Response:
    """The native completion."""
    return await complete(server, request, body, NATIVE)


async def post_completions_oai(server: Server, request: Request, body: Json) -> Response:
    """OpenAI's text completion."""
    id = new_id()
    api = Api(
        lambda native: OpenAiWriter(native, id),
        ends_with_done=True,
        joins_choices=True,
        completion_id=id,
    )
    return await complete(server, request, body, api)


async def post_chat_completions(server: Server, request: Request, body: Json) -> Response:
    """OpenAI's chat completion."""
    read = await asyncio.to_thread(completion_body, server, body)
    id = new_id()
    api = Api(
        lambda native: ChatWriter(native, id, read.new_output()),
        ends_with_done=True,
        joins_choices=True,
        completion_id=id,
    )
    return await complete(server, request, read.body, api)


def new_id() -> str:
    """A completion id, as upstream makes them."""
    return f"chatcmpl-{random_string()}"
