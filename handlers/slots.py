"""POST /slots/:id_slot: saves what a slot holds, restores it or erases it."""

import asyncio
import logging
import re
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from engine.slots.files import InvalidSlotFile, SlotFileError, SlotTooSmall
from generated import errors, replies, wire
from generated.api_error import ApiError
from generated.http import JsonResponse, read_json
from handlers.server import Server

log = logging.getLogger(__name__)

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_LONGEST_NAME = 255
_FORBIDDEN = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters
    "/\\\\:*?\"<>|"
    "\uff0e\u2215\u2216"  # what looks like a full stop, a slash, a backslash
    "\ud800-\udfff\ufffd\ufeff"  # what is no character
    "]"
)


async def post_slots(server: Server, request: Request) -> Response:
    """Do with a slot what the query's `action` says, as soon as the slot is free."""
    id_slot = slot_number(request.path_params["id_slot"])
    action = request.query_params.get("action", "")
    if action == "save":
        return await _save(server, request, id_slot)
    if action == "restore":
        return await _restore(server, request, id_slot)
    if action == "erase":
        return await _erase(server, id_slot)
    raise errors.slot_action_invalid()


def slot_number(text: str) -> int:
    """A slot's number as C reads one: what follows the digits doesn't matter."""
    found = _NUMBER.match(text)
    number = int(found[1]) if found and len(found[1]) <= 11 else None
    if number is None or not -(2**31) <= number < 2**31:
        raise errors.slot_id_invalid()
    return number


def is_file_name(name: str) -> bool:
    """Whether upstream takes this as the name of a file in its folder (`fs_validate_filename`)."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME
        and not _FORBIDDEN.search(name)
        and not name.startswith(" ")
        and not name.endswith((" ", "."))
        and ".." not in name
    )


async def _save(server: Server, request: Request, id_slot: int) -> Response:
    name, path = await _file(server, request)
    started = time.perf_counter()
    try:
        figures = await asyncio.wrap_future(server.engine.save_slot(id_slot, path))
    except (OSError, TypeError) as error:
        log.error("slot %d can't be saved as %s: %s", id_slot, name, error)
        raise errors.slot_save_failed() from None
    return JsonResponse(
        replies.slot_save(
            id_slot=id_slot,
            filename=name,
            n_saved=figures.n_tokens,
            n_written=figures.n_bytes,
            timings={"save_ms": _milliseconds_since(started)},
        )
    )


async def _restore(server: Server, request: Request, id_slot: int) -> Response:
    name, path = await _file(server, request)
    started = time.perf_counter()
    try:
        figures = await asyncio.wrap_future(server.engine.restore_slot(id_slot, path))
    except SlotFileError as error:
        raise _restore_error(error) from None
    return JsonResponse(
        replies.slot_restore(
            id_slot=id_slot,
            filename=name,
            n_restored=figures.n_tokens,
            n_read=figures.n_bytes,
            timings={"restore_ms": _milliseconds_since(started)},
        )
    )


async def _erase(server: Server, id_slot: int) -> Response:
    n_erased = await asyncio.wrap_future(server.engine.erase_slot(id_slot))
    return JsonResponse(replies.slot_erase(id_slot=id_slot, n_erased=n_erased))


async def _file(server: Server, request: Request) -> tuple[str, Path]:
    """The file that the body names."""
    name = wire.get_string(wire.at(await read_json(request), "filename"))
    if not is_file_name(name):
        raise errors.slot_filename_invalid()
    return name, Path(server.settings.slot_save_path) / name


def _restore_error(error: SlotFileError) -> ApiError:
    if isinstance(error, InvalidSlotFile):
        return errors.slot_restore_no_space()
    if isinstance(error, SlotTooSmall):
        return errors.slot_restore_too_long()
    return errors.slot_restore_invalid_tokens()


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
