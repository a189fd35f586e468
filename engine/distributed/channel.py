"""Messages between rank 0 and the others over plain TCP, beside MLX's own communication.

MLX's collectives keep a core busy while they wait, and wait for ever when a peer is gone. A read
from a socket does neither, so everything is said here first: what all do next, and who has ended.
A message is a JSON array, after its length in four bytes.
"""

import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from engine.distributed.launch import Launch
from engine.errors import ModelError

Message = list[Any]

PROTOCOL = 1
PATIENCE_SECONDS = 300.0
"""How long the processes wait for each other at the start: some machines take long to get going."""
_RETRY_SECONDS = 0.1
_LONGEST = 1 << 28
_LENGTH = struct.Struct("!I")
# Seconds of silence after which a peer is asked for a sign of life, and between two attempts.
_KEEPALIVE = 5


class Connection:
    """A socket that carries whole messages; one thread reads, any may write."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.peer = str(stream.getpeername()[0])
        """The other side's address."""
        stream.settimeout(None)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", _KEEPALIVE),
            ("TCP_KEEPALIVE", _KEEPALIVE),
            ("TCP_KEEPINTVL", _KEEPALIVE),
            ("TCP_KEEPCNT", 3),
        ):
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, message: Message) -> None:
        """Send a message; raises OSError if the other side is gone."""
        data = json.dumps(message, separators=(",", ":")).encode()
        with self._lock:
            self._stream.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for a message; None once the other side has ended, or speaks another language."""
        try:
            self._stream.settimeout(timeout)
            head = self._read(_LENGTH.size)
            length = _LENGTH.unpack(head)[0] if head else _LONGEST
            data = self._read(length) if length < _LONGEST else b""
            message = json.loads(data) if data else None
        except (OSError, ValueError):
            return None
        return message if isinstance(message, list) and message else None

    def close(self) -> None:
        """End the connection; who reads from it is told."""
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def _read(self, length: int) -> bytes:
        parts = []
        while length > 0 and (part := self._stream.recv(min(length, 1 << 20))):
            parts.append(part)
            length -= len(part)
        return b"" if length else b"".join(parts)


class Followers:
    """Rank 0's side: a connection to each other rank, watched from then on."""

    def __init__(self, launch: Launch, on_lost: Callable[[str], None]) -> None:
        """`on_lost` is called on another thread, once, with why they can't go on together."""
        self._launch = launch
        self._on_lost = on_lost
        self._connections: dict[int, Connection] = {}
        self._heard: dict[int, queue.SimpleQueue[Message]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._lost = ""
        self._told = threading.Event()

    def gather(self, greeting: Message) -> None:
        """Wait until every other rank has connected with this greeting; raises `ModelError`.

        The port is free again afterwards, for the backend.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        with _listen(self._launch) as listener:
            while missing := set(range(1, self._launch.size)) - set(self._connections):
                listener.settimeout(max(0.0, end - time.monotonic()))
                try:
                    stream, _ = listener.accept()
                except OSError:
                    who = ", ".join(str(rank) for rank in sorted(missing))
                    raise ModelError(
                        f"rank {who} didn't connect within {PATIENCE_SECONDS:g} seconds:"
                        " see what it says"
                    ) from None
                with suppress(OSError):
                    self._welcome(Connection(stream), missing, greeting)
        for rank, connection in self._connections.items():
            self._heard[rank] = queue.SimpleQueue()
            threading.Thread(
                target=self._watch, args=(rank, connection), name=f"rank {rank}", daemon=True
            ).start()

    def tell(self, *message: Any) -> None:
        """Send all others the same message; one who is gone is noticed elsewhere."""
        for connection in self._connections.values():
            with suppress(OSError):
                connection.send(list(message))

    def ask(self) -> Iterator[tuple[int, Message]]:
        """Wait for one message of each other rank; raises `ModelError` if one has ended."""
        for rank, heard in self._heard.items():
            message = heard.get()
            if self._lost:
                raise ModelError(self._lost)
            yield rank, message

    def wait_lost(self, timeout: float) -> str:
        """Wait, at most `timeout` seconds, until it is known why; empty if nothing is."""
        self._told.wait(timeout)
        return self._lost

    def close(self, *message: Any) -> None:
        """Tell all others that this is the end, which they don't need to be told."""
        with self._lock:
            self._closed = True
        if message:
            self.tell(*message)
        for connection in self._connections.values():
            connection.close()

    def _welcome(self, connection: Connection, missing: set[int], greeting: Message) -> None:
        """Take a connection if it is one of those that are waited for; others are strangers."""
        hello = connection.receive(timeout=10.0)
        if hello is None or hello[0] != "hello" or len(hello) != 3 or hello[1] not in missing:
            connection.close()
            return
        if hello[2] != greeting:
            reason = f"rank {hello[1]} runs {_spelled(hello[2])} and rank 0 {_spelled(greeting)}"
            connection.send(["end", reason])
            connection.close()
            raise ModelError(f"{reason}: install the same everywhere")
        self._connections[hello[1]] = connection

    def _watch(self, rank: int, connection: Connection) -> None:
        while (message := connection.receive()) is not None and message[0] != "failed":
            self._heard[rank].put(message)
        reason = f"rank {rank} on {connection.peer} has ended"
        if message is not None:
            reason = f"on rank {rank}, {connection.peer}: {message[1]}"
        with self._lock:
            if self._closed or self._lost:
                return
            self._lost = reason
        for heard in self._heard.values():
            heard.put(["lost"])
        self._on_lost(reason)
        self._told.set()


def connect(launch: Launch, greeting: Message) -> Connection:
    """The connection of another rank to rank 0, for which it waits; raises `ModelError`."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            stream = socket.create_connection((launch.host, launch.port), timeout=5.0)
            # On one machine a socket may find nobody but itself.
            if stream.getsockname() != stream.getpeername():
                break
            stream.close()
        except OSError as error:
            if time.monotonic() > end:
                raise ModelError(
                    f"rank {launch.rank} can't reach rank 0 at {launch.host}:{launch.port}:"
                    f" {error.strerror or error}"
                ) from None
            time.sleep(_RETRY_SECONDS)
    connection = Connection(stream)
    connection.send(["hello", launch.rank, greeting])
    return connection


def _listen(launch: Launch) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(
        launch.host, launch.port, type=socket.SOCK_STREAM
    )[0]
    listener = socket.socket(family, kind)
    # The backend binds the same port while these connections are open.
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        listener.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise ModelError(
            f"rank 0 can't listen on {launch.host}:{launch.port}, where the others look for it:"
            f" {error.strerror}; give mlx.launch another --starting-port"
        ) from None
    return listener


def _spelled(greeting: Any) -> str:
    return " ".join(str(part) for part in greeting) if isinstance(greeting, list) else "another"
