"""Reads and writes files of tensors (the safetensors format), trusting nothing that is in them."""

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np

_TYPES = {
    "BOOL": mx.bool_,
    "U8": mx.uint8,
    "U32": mx.uint32,
    "I32": mx.int32,
    "I64": mx.int64,
    "F16": mx.float16,
    "BF16": mx.bfloat16,
    "F32": mx.float32,
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_HEADER_LIMIT = 1 << 24
"""Bytes; a header describes a few hundred tensors."""
_CHECKSUM_SIZE = 32
_METADATA, _CHECKSUM = "__metadata__", "checksum"


class TensorFileError(Exception):
    """The file isn't one that `write` made: `str()` says in a few words why."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a file says of a tensor."""

    dtype: mx.Dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.size


def write(path: Path, tensors: Sequence[mx.array], metadata: Mapping[str, str]) -> int:
    """Write tensors, in their order, and return the file's size in bytes.

    The file appears whole or not at all, whatever happens meanwhile. Raises OSError.
    """
    unfinished = path.with_name(f".slot-{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            size = _write(file, tensors, metadata)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return size


class TensorFile:
    """An open file whose header was read and makes sense; close it after use."""

    def __init__(self, path: Path) -> None:
        """Raises OSError and TensorFileError."""
        # A pipe would block; what isn't a plain file isn't ours.
        self._file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        try:
            self.size = _plain_size(self._file)
            self.metadata, self.tensors = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *args: object) -> None:
        self._file.close()

    def read(self) -> list[mx.array]:
        """All tensors in their order; raises OSError and TensorFileError if the data was changed.

        Look at `tensors` first: so much memory is taken.
        """
        digest = self._digest.copy()
        values = []
        for info in self.tensors:
            data = self._file.read(info.nbytes)
            if len(data) != info.nbytes:
                raise TensorFileError("the file is cut off")
            digest.update(data)
            flat = mx.array(np.frombuffer(data, np.uint8))
            values.append(flat.view(info.dtype).reshape(info.shape))
        if digest.digest() != self._file.read():
            raise TensorFileError("the checksum is wrong")
        mx.eval(values)
        return values

    def _read_header(self) -> tuple[dict[str, str], list[TensorInfo]]:
        length = int.from_bytes(self._file.read(8), "little")
        if not 2 <= length <= min(_HEADER_LIMIT, self.size - 8):
            raise TensorFileError("the header's length is wrong")
        try:
            text = self._file.read(length)
            header = json.loads(text)
        except (ValueError, RecursionError):
            raise TensorFileError("the header isn't JSON") from None
        if not isinstance(header, dict):
            raise TensorFileError("the header isn't an object")
        self._digest = _digest(text)
        metadata = header.pop(_METADATA, None)
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise TensorFileError("there is no metadata")
        tensors = list(_infos(header))
        if not tensors or tensors.pop() != TensorInfo(mx.uint8, (_CHECKSUM_SIZE,)):
            raise TensorFileError("there is no checksum")
        if 8 + length + sum(info.nbytes for info in tensors) + _CHECKSUM_SIZE != self.size:
            raise TensorFileError("the file has another size than its tensors")
        return metadata, tensors


def _write(file: BinaryIO, tensors: Sequence[mx.array], metadata: Mapping[str, str]) -> int:
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    end = 0
    for number, tensor in enumerate(tensors):
        start, end = end, end + tensor.nbytes
        header[f"{number}"] = _entry(_NAMES[tensor.dtype], tensor.shape, start, end)
    header[_CHECKSUM] = _entry("U8", (_CHECKSUM_SIZE,), end, end + _CHECKSUM_SIZE)
    text = json.dumps(header).encode()
    # As the format recommends: the data begins at a multiple of 8.
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    digest = _digest(text)
    for tensor in tensors:
        if tensor.size:
            data = np.array(mx.contiguous(tensor).reshape(-1).view(mx.uint8)).data
            digest.update(data)
            file.write(data)
    file.write(digest.digest())
    return 8 + len(text) + end + _CHECKSUM_SIZE


def _entry(dtype: str, shape: Sequence[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def _digest(header: bytes) -> Any:
    """The checksum of a file so far; it covers header and data."""
    return hashlib.blake2b(header, digest_size=_CHECKSUM_SIZE)


def _plain_size(file: BinaryIO) -> int:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise TensorFileError("it isn't a plain file")
    return status.st_size


def _infos(header: Mapping[str, Any]) -> Iterator[TensorInfo]:
    """The tensors, which must follow each other without a gap."""
    at = 0
    for entry in header.values():
        if not isinstance(entry, dict):
            raise TensorFileError("a tensor isn't described")
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if not isinstance(dtype, str) or dtype not in _TYPES:
            raise TensorFileError("a tensor's type is wrong")
        info = TensorInfo(_TYPES[dtype], _shape(shape))
        if entry.get("data_offsets") != [at, at + info.nbytes]:
            raise TensorFileError("a tensor isn't where it should be")
        at += info.nbytes
        yield info


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 8:
        raise TensorFileError("a tensor's shape is wrong")
    if not all(type(size) is int and 0 <= size < 1 << 31 for size in value):
        raise TensorFileError("a tensor's shape is wrong")
    return tuple(value)
