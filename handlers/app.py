"""The HTTP application: the generated routes, and what upstream does before and around them."""

import logging
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from generated import errors
from generated.api_error import ApiError
from generated.http import ClientGone, JsonResponse
from generated.jsontext import JsonError
from generated.options import Settings
from generated.routes import PUBLIC_PATHS, bind
from generated.wire import FieldError
from handlers.server import Server
from handlers.table import HANDLERS

log = logging.getLogger(__name__)

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_BEARER = "Bearer "


def make_app(server: Server) -> ASGIApp:
    """The application; raises BindError if a handler is missing or one too many."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(bind(HANDLERS, server), prefix=server.settings.api_prefix)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(FieldError, _invalid_request)
    app.add_exception_handler(JsonError, _server_error)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_found)
    app.add_exception_handler(Exception, _unexpected)
    return Gate(app, server)


class Gate:
    """Before any route: CORS headers, then 503 until the model is loaded, then the API key."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app = app
        self.server = server
        self.keys = frozenset(server.settings.api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # Answered as GET, as upstream does; the HTTP server leaves the body out.
            scope = {**scope, "method": "GET"}
        request = Request(scope)
        headers = cors_headers(self.server.settings, request.headers.get("origin", ""))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*headers, *message["headers"]]
            await send(message)

        early = self._early(request)
        await (early or self.app)(scope, receive, send_with_headers)

    def _early(self, request: Request) -> Response | None:
        """The answer that keeps a request from its route, if there is one."""
        settings = self.server.settings
        if request.method == "OPTIONS":
            return _preflight(settings)
        try:
            if not self.server.is_ready or self.server.draining:
                raise self._not_ready()
            self._check_key(request)
        except ApiError as error:
            return JsonResponse(error.body, error.status)
        return None

    def _not_ready(self) -> ApiError:
        engine = self.server.engine
        if self.server.draining:
            return errors.shutting_down()
        if engine.state == "loading":
            return errors.loading_model()
        return errors.engine_stopped(engine.failure)

    def _check_key(self, request: Request) -> None:
        if not self.keys or request.url.path in PUBLIC_PATHS:
            return
        key = request.headers.get("authorization") or request.headers.get("x-api-key") or ""
        if key.removeprefix(_BEARER) not in self.keys:
            log.warning("unauthorized: Invalid API Key")
            raise errors.invalid_api_key()


def cors_headers(settings: Settings, origin: str) -> list[tuple[bytes, bytes]]:
    """Upstream's `Server` and `Access-Control-Allow-Origin` for a request from this origin."""
    allowed: str | None = settings.cors_origins
    if settings.cors_credentials and settings.cors_origins == "*":
        allowed = origin
    elif settings.cors_origins == "localhost":
        allowed = origin if _is_local(origin) else None
    headers = [(b"server", b"llama.cpp")]
    if allowed is not None:
        headers.append((b"access-control-allow-origin", allowed.encode("latin-1", "replace")))
    return headers


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _LOCAL_HOSTS
    except ValueError:
        return False


def _preflight(settings: Settings) -> Response:
    return Response(
        headers={
            "Content-Type": "text/html",
            "Access-Control-Allow-Credentials": "true" if settings.cors_credentials else "false",
            "Access-Control-Allow-Methods": settings.cors_methods,
            "Access-Control-Allow-Headers": settings.cors_headers,
        },
    )


def _answer(error: ApiError) -> Response:
    return JsonResponse(error.body, error.status)


async def _api_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return _answer(error)


async def _invalid_request(request: Request, error: Exception) -> Response:
    return _answer(ApiError(errors.INVALID_REQUEST, str(error)))


async def _server_error(request: Request, error: Exception) -> Response:
    return _answer(ApiError(errors.SERVER, str(error)))


async def _not_found(request: Request, error: Exception) -> Response:
    return _answer(errors.file_not_found())


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("a handler failed", exc_info=error)
    return _answer(errors.exception(str(error) or type(error).__name__))
