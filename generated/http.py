"""JSON in and out over HTTP, the way llama-server reads and writes it, and clients that go away."""
# Copied by `python -m codegen gen` from codegen/runtime/http.py; edit that.

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .jsontext import Json, dumps, loads

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection; there is nobody to answer."""


class JsonResponse(Response):
    """A reply with a JSON body and upstream's content type."""

    media_type = "application/json; charset=utf-8"

    def render(self, content: Json) -> bytes:
        return dumps(content).encode("utf-8", "surrogateescape")


class EventStream(Response):
    """Server-sent events: each item that the generator gives is sent at once.

    The generator is closed as soon as the client goes away, even while it waits.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[str, None]) -> None:
        self.frames = frames
        self.status_code = 200
        self.background = None
        self.raw_headers = [
            (b"x-accel-buffering", b"no"),
            (b"content-type", self.media_type.encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientGone):
                await while_connected(receive, self._send(send))
        finally:
            await self.frames.aclose()

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        )
        async for text in self.frames:
            chunk = text.encode("utf-8", "surrogateescape")
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def read_json(request: Request) -> Json:
    """The request body as JSON; raises ParseError with upstream's text."""
    return loads(await request.body())


async def while_connected(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled, and ClientGone raised, if the client leaves first.

    The request body must have been read before.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        leaving.cancel()
        working.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await working


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
