"""JSON in and out over HTTP, the way llama-server reads and writes it."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from .jsontext import Json, dumps, loads


class JsonResponse(Response):
    """A reply with a JSON body and upstream's content type."""

    media_type = "application/json; charset=utf-8"

    def render(self, content: Json) -> bytes:
        return dumps(content).encode("utf-8", "surrogateescape")


class EventStream(StreamingResponse):
    """Server-sent events, each item of the iterator one or more whole frames."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[str]) -> None:
        super().__init__(frames, media_type=self.media_type)


async def read_json(request: Request) -> Json:
    """The request body as JSON; raises ParseError with upstream's text."""
    return loads(await request.body())
