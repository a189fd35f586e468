"""Sends a request over HTTP and keeps what matters: status, headers, body or frames."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from codegen.capture.probes import Json, Request

_TRANSPORT = {
    "accept-ranges",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
}
"""Headers that say how bytes travel, which two HTTP libraries may do differently."""


@dataclass(frozen=True)
class Answer:
    """One answer; of `body`, `text` and `frames` the one that its content type asks for is set."""

    status: int
    headers: dict[str, str]
    body: Json = None
    text: str | None = None
    frames: list[dict[str, Any]] | None = None
    is_json: bool = field(default=False)

    def data(self) -> dict[str, Any]:
        """As captures have it."""
        data: dict[str, Any] = {"status": self.status, "headers": self.headers}
        if self.frames is not None:
            data["frames"] = self.frames
        elif self.is_json:
            data["body"] = self.body
        else:
            data["text"] = self.text or ""
        return data


def send(
    port: int, request: Request, timeout: float = 120, *, meanwhile: Request | None = None
) -> Answer:
    """Send it and read the whole answer; OSError if nobody listens or it takes too long.

    `meanwhile` is sent when the first line of a streaming answer has come.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        response = _begin(connection, request)
        first = b""
        if meanwhile is not None:
            first = response.readline()
            send(port, meanwhile.naming(_id(first)), timeout)
        return _answer(response, first)
    finally:
        connection.close()


@contextmanager
def running(port: int, request: Request | None) -> Iterator[str]:
    """While inside, a streaming request is being answered; it is dropped at the end. Its id."""
    if request is None:
        yield ""
        return
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        yield _id(_begin(connection, request).readline())
    finally:
        connection.close()


def _begin(connection: HTTPConnection, request: Request) -> HTTPResponse:
    payload: bytes | None = None
    if request.raw is not None:
        payload = request.raw.encode()
    elif request.has_body:
        payload = json.dumps(request.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    headers = dict(request.headers)
    if payload is not None:
        headers.setdefault("Content-Type", "application/json")
    connection.request(request.method, request.path, body=payload, headers=headers)
    return connection.getresponse()


def _id(line: bytes) -> str:
    """The id in the first line of a stream, empty where it has none."""
    frame = _json_or_text(line.decode().removeprefix("data: "))
    return str(frame.get("id", "")) if isinstance(frame, dict) else ""


def _answer(response: HTTPResponse, first: bytes = b"") -> Answer:
    """The whole answer, of which `first` was read before."""
    content = (first + response.read()).decode("utf-8", "replace")
    headers = {
        name.lower(): value
        for name, value in response.getheaders()
        if name.lower() not in _TRANSPORT
    }
    kind = headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        return Answer(response.status, headers, frames=list(_frames(content)))
    if kind.startswith("application/json") and content:
        return Answer(response.status, headers, body=json.loads(content), is_json=True)
    return Answer(response.status, headers, text=content)


def _frames(content: str) -> Iterator[dict[str, Any]]:
    """Each event as its lines by name; `data` that is JSON as JSON, a comment line by ""."""
    for block in content.split("\n\n"):
        frame: dict[str, Any] = {}
        for line in block.split("\n") if block else []:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            frame[name] = _json_or_text(value) if name == "data" else value
        if frame:
            yield frame


def _json_or_text(value: str) -> Json:
    try:
        return json.loads(value)
    except ValueError:
        return value
