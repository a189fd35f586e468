"""How processes that share a model find each other, and what they hear of each other's end."""

import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from engine.distributed.channel import Connection, Followers, connect
from engine.distributed.launch import Launch
from engine.distributed.open import agree
from engine.errors import ModelError
from tests.together import free_ports

SOON = 10.0


@pytest.fixture
def launches() -> Iterator[list[Launch]]:
    """Those of two processes."""
    with free_ports(1) as (port,):
        pass
    yield [Launch(rank, 2, "127.0.0.1", port) for rank in range(2)]


@pytest.fixture
def lost() -> "Future[str]":
    """Why the processes can't go on together, once that is told."""
    return Future()


@pytest.fixture
def pair(launches: list[Launch], lost: "Future[str]") -> Iterator[tuple[Followers, Connection]]:
    """Rank 0's side and rank 1's."""
    followers = Followers(launches[0], lost.set_result)
    with ThreadPoolExecutor() as pool:
        connecting = pool.submit(connect, launches[1], ["same"])
        followers.gather(["same"])
        connection = connecting.result(SOON)
    yield followers, connection
    followers.close()
    connection.close()


def test_what_is_said_is_heard_in_order(pair: tuple[Followers, Connection]) -> None:
    followers, connection = pair
    followers.tell("decode", [1, 2], [0, 0], 2)
    followers.tell("prefill", 0, list(range(100_000)))
    connection.send(["loaded", "ü"])
    assert connection.receive() == ["decode", [1, 2], [0, 0], 2]
    assert connection.receive() == ["prefill", 0, list(range(100_000))]
    assert list(followers.ask()) == [(1, ["loaded", "ü"])]


def test_the_port_is_free_again_for_the_backend(
    pair: tuple[Followers, Connection], launches: list[Launch]
) -> None:
    with socket.socket() as backend:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            backend.setsockopt(socket.SOL_SOCKET, option, 1)
        backend.bind((launches[0].host, launches[0].port))
        backend.listen()


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (None, "rank 1 on 127.0.0.1 has ended"),
        (["failed", "no such file"], "on rank 1, 127.0.0.1: no such file"),
    ],
)
def test_an_end_is_told_to_whoever_asks_or_waits(
    pair: tuple[Followers, Connection], lost: "Future[str]", last: list[str] | None, says: str
) -> None:
    followers, connection = pair
    if last is None:
        connection.close()
    else:
        connection.send(last)
    assert lost.result(SOON) == says
    assert followers.wait_lost(SOON) == says
    with pytest.raises(ModelError) as error:
        list(followers.ask())
    assert str(error.value) == says


def test_an_end_that_rank_0_wants_is_no_loss(
    pair: tuple[Followers, Connection], lost: "Future[str]"
) -> None:
    followers, connection = pair
    followers.close("end", "")
    assert [connection.receive(), connection.receive()] == [["end", ""], None]
    assert (followers.wait_lost(0.1), lost.done()) == ("", False)


def test_strangers_are_not_taken_for_a_rank(launches: list[Launch], lost: "Future[str]") -> None:
    followers = Followers(launches[0], lost.set_result)
    with ThreadPoolExecutor() as pool:
        gathering = pool.submit(followers.gather, ["same"])
        stranger = connect(launches[0], ["same"])  # says that it is rank 0
        assert stranger.receive() is None
        with socket.create_connection((launches[0].host, launches[0].port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""
        connection = connect(launches[1], ["same"])
        gathering.result(SOON)
    followers.close("end", "")
    assert connection.receive() == ["end", ""]


def test_processes_that_differ_are_told_so(launches: list[Launch], lost: "Future[str]") -> None:
    with ThreadPoolExecutor() as pool:
        connecting = pool.submit(connect, launches[1], ["mlx", "1"])
        with pytest.raises(ModelError) as error:
            Followers(launches[0], lost.set_result).gather(["mlx", "2"])
        ending = connecting.result(SOON).receive()
    assert str(error.value) == "rank 1 runs mlx 1 and rank 0 mlx 2: install the same everywhere"
    assert ending == ["end", "rank 1 runs mlx 1 and rank 0 mlx 2"]


@pytest.mark.parametrize(
    ("own", "others", "chosen"),
    [("float32", "float32", "float32"), ("float32", "native", "native"), ("half", "half", "half")],
)
def test_all_load_what_all_have_the_memory_for(
    pair: tuple[Followers, Connection], own: str, others: str, chosen: str
) -> None:
    followers, connection = pair
    connection.send(["weights", others, 100])
    assert agree(followers, own, 100) == chosen
    assert connection.receive() == ["weights", chosen]


def test_another_model_is_not_agreed_on(pair: tuple[Followers, Connection]) -> None:
    followers, connection = pair
    connection.send(["weights", "float32", 200])
    with pytest.raises(ModelError) as error:
        agree(followers, "float32", 100)
    assert str(error.value) == "rank 1 has another model: give all the same file"
