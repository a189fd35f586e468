"""Facts of routes that differ from upstream on purpose, or that no capture holds."""

import httpx

from generated.build import BUILD, COMMIT
from tests.server import StartServer


def test_root_is_not_found(start_server: StartServer) -> None:
    reply = httpx.get(f"{start_server().url}/")
    assert (reply.status_code, reply.text) == (
        404,
        '{"error":{"message":"File Not Found","type":"not_found_error","code":404}}',
    )


def test_build_info_is_the_pinned_build(start_server: StartServer) -> None:
    props = httpx.get(f"{start_server().url}/props").json()
    assert props["build_info"] == f"b{BUILD}-{COMMIT}" == "b10621-c1d0e7a00"
