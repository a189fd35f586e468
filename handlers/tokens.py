"""POST /tokenize, /detokenize and /apply-template, and the token counts."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from generated import errors, replies, wire
from generated.absent import ABSENT
from generated.http import JsonResponse
from generated.jsontext import Json
from generated.requests.detokenize import DetokenizeRequest
from generated.requests.tokenize import TokenizeRequest
from handlers.chat_body import completion_body
from handlers.prompts import tokenize_mixed
from handlers.server import Server


async def post_tokenize(server: Server, request: Request, body: TokenizeRequest) -> Response:
    """Token ids of a text, with their pieces if asked for; without `content`, no tokens."""
    if body.content is ABSENT:
        return JsonResponse(replies.tokenize(tokens=[]))
    tokenizer = server.tokenizer
    tokens = await asyncio.to_thread(
        tokenize_mixed,
        tokenizer,
        body.content,
        add_special=body.add_special,
        parse_special=body.parse_special,
    )
    if not body.with_pieces:
        return JsonResponse(replies.tokenize(tokens=tokens))
    pieces = [replies.token_piece(id=t, piece=_piece(tokenizer.piece(t))) for t in tokens]
    return JsonResponse(replies.tokenize(tokens=pieces))


async def post_detokenize(server: Server, request: Request, body: DetokenizeRequest) -> Response:
    """The text of token ids."""
    content = b""
    if body.tokens is not ABSENT:
        tokens = wire.get_list(wire.get_int32)(body.tokens)
        for token in tokens:
            if not 0 <= token < server.tokenizer.n_tokens:
                raise errors.token_out_of_range(index=token % 2**64, size=server.tokenizer.n_tokens)
        content = server.tokenizer.decode(tokens, special=True)
    return JsonResponse(replies.detokenize(content=content.decode("utf-8", "surrogateescape")))


async def post_apply_template(server: Server, request: Request, body: Json) -> Response:
    """The prompt that the chat template makes of the messages."""
    read = await asyncio.to_thread(completion_body, server, body)
    return JsonResponse(replies.apply_template(prompt=read.body["prompt"]))


async def post_chat_completions_tok(server: Server, request: Request, body: Json) -> Response:
    """How many tokens a chat body's prompt has."""
    read = await asyncio.to_thread(completion_body, server, body)
    tokens = server.tokenizer.encode(
        read.body["prompt"], add_special=True, parse_special=True
    )
    return JsonResponse(replies.input_tokens(input_tokens=len(tokens)))


def _piece(piece: bytes) -> Any:
    """The text, or the byte values of what isn't whole characters."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
