"""GET /mlx/coverage: what of llama-server is covered, as the generated page and document."""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from handlers.server import Server


async def get_coverage(server: Server, request: Request) -> Response:
    """The page."""
    return Response(_generated("coverage.html"), media_type="text/html")


async def get_coverage_json(server: Server, request: Request) -> Response:
    """The document for machines."""
    return Response(_generated("coverage.json"), media_type="application/json; charset=utf-8")


def _generated(name: str) -> bytes:
    return files("generated").joinpath(name).read_bytes()
