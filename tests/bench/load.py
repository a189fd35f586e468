"""Many requests at once over HTTP, with the moment of every token by the client's clock.

Bytes are only stamped while they come and read afterwards, so that the client, which shares the
machine with the server, takes next to no time from it.
"""

import json
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

_RECEIVE = 1 << 16
_TIMEOUT = 600.0

Json = dict[str, Any]


class LoadError(Exception):
    """A server's answer that can't be measured."""


@dataclass
class Stream:
    """One answer: what came when, and from it the moments at which there was new text."""

    connection: socket.socket
    sent: float
    received: list[tuple[float, bytes]] = field(default_factory=list)
    ended: bool = False

    @property
    def has_text(self) -> bool:
        """Whether a frame came: the head of the answer comes in a piece of its own."""
        return len(self.received) > 1 or any(b"data: {" in data for _, data in self.received)

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.received[0][1].split(b" ", 2)[1])

    def body(self) -> bytes:
        """All that came behind the head, chunked or not."""
        return b"".join(data for _, data in self.received).partition(b"\r\n\r\n")[2]

    def moments(self) -> list[float]:
        """When each frame with text came; raises LoadError if none did."""
        found = [moment for moment, frame in self.frames() if _text(frame)]
        if not found:
            raise LoadError(f"no text came: {b''.join(d for _, d in self.received)[:300]!r}")
        return found

    def frames(self) -> list[tuple[float, Json]]:
        """Every JSON object of the stream and when its last byte came."""
        found: list[tuple[float, Json]] = []
        rest = b""
        for moment, data in self.received:
            *whole, rest = (rest + data).split(b"\n\n")
            for event in whole:
                at = event.find(b"data: {")
                if at >= 0:
                    found.append((moment, json.loads(event[at + len(b"data: ") :])))
        return found

    @property
    def first_token(self) -> float:
        """Seconds from sending to the first text."""
        return self.moments()[0] - self.sent


def _text(frame: Json) -> str:
    """A frame's text, of the native or of OpenAI's completion."""
    if "content" in frame:
        return str(frame["content"])
    return str(frame["choices"][0].get("text") or "") if frame.get("choices") else ""


class Client:
    """Connections to one server on this machine; closes them at the end of `with`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for key in list(self._selector.get_map().values()):
            self.drop(key.data)
        self._selector.close()

    def post(self, path: str, body: Json) -> Stream:
        """Send a request on a connection of its own; OSError if nobody listens."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=_TIMEOUT)
        stream = Stream(connection, time.perf_counter())
        connection.sendall(head.encode() + data)
        self._selector.register(connection, selectors.EVENT_READ, stream)
        return stream

    def take_until(self, enough: Callable[[], bool]) -> None:
        """Take what comes until `enough()`; LoadError if the server falls silent before."""
        while not enough():
            ready = self._selector.select(_TIMEOUT) if self._selector.get_map() else []
            if not ready:
                raise LoadError("nothing comes any more")
            for key, _ in ready:
                stream: Stream = key.data
                data = stream.connection.recv(_RECEIVE)
                if data:
                    stream.received.append((time.perf_counter(), data))
                else:
                    self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Close a connection, whatever is still to come."""
        if not stream.ended:
            self._selector.unregister(stream.connection)
            stream.connection.close()
            stream.ended = True


def run_streams(port: int, path: str, bodies: Sequence[Json]) -> list[Stream]:
    """Send all bodies at once and take all that comes; raises LoadError and OSError."""
    with Client(port) as client:
        streams = [client.post(path, body) for body in bodies]
        client.take_until(lambda: all(stream.ended for stream in streams))
    return streams


def ask(port: int, path: str, body: Json) -> Stream:
    """One request to its end."""
    return run_streams(port, path, [body])[0]


def speed(moments: Sequence[Sequence[float]], n_predict: int) -> float:
    """Tokens a second of all streams together, from each one's moments.

    Counted from when all have their first token until the first of them ends. A frame may stand
    for a little more than a token where a server holds text back, so each stream's `n_predict`
    tokens are spread evenly over its frames. Raises LoadError if the streams never ran together.
    """
    start = max(own[0] for own in moments)
    end = min(own[-1] for own in moments)
    if end <= start:
        raise LoadError("the streams didn't run together: ask for more tokens")
    tokens = sum(
        sum(start < moment <= end for moment in own) * n_predict / len(own) for own in moments
    )
    return tokens / (end - start)
