"""Reads a GGUF file's metadata and tensor directory, refusing what llama.cpp's reader refuses."""

import errno
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import ModelError
from engine.gguf.types import BY_NUMBER, TensorType

_MAX_NAME_BYTES = 63
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
# Sixteen times the largest vocabularies; a file that asks for more would only fill the memory.
_MAX_ARRAY_VALUES = 1 << 24
_SMALLEST_PAIR = 8 + 1 + 4 + 1
_SMALLEST_TENSOR = 8 + 4 + 4 + 8

_NUMBERS = {
    0: ("<B", "u1"),
    1: ("<b", "i1"),
    2: ("<H", "<u2"),
    3: ("<h", "<i2"),
    4: ("<I", "<u4"),
    5: ("<i", "<i4"),
    6: ("<f", "<f4"),
    7: ("<?", "?"),
    10: ("<Q", "<u8"),
    11: ("<q", "<i8"),
    12: ("<d", "<f8"),
}
_UINT32, _STRING, _ARRAY = 4, 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: `shape` is in numpy's order, columns last; `offset` is from the file's start."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    nbytes: int
    part: int = 0

    @property
    def size(self) -> int:
        """How many values it holds."""
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1


@dataclass(frozen=True)
class GGUFFile:
    """A GGUF model, of one file or of several parts; tensor bytes are mapped, not read.

    `metadata` holds strings decoded as UTF-8 with `surrogateescape` (tokens may be any bytes) and
    arrays as lists. `parts` are the paths of the files, `version` and `metadata` the first one's.
    """

    path: Path
    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    parts: tuple[Path, ...]
    _maps: tuple[mmap.mmap, ...] = field(repr=False)

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """A tensor's bytes as stored: a read-only uint8 view [nbytes] into the mapped file."""
        info = self.tensors[name]
        return np.frombuffer(self._maps[info.part], np.uint8, info.nbytes, info.offset)


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Read the metadata and the tensor directory of a GGUF file, and of its further parts.

    Parts are files named `NAME-00001-of-00003.gguf`; the first is the one to give. Takes 0.1 to
    0.3 s for a vocabulary of 150,000 tokens. Raises `ModelError` for whatever isn't a complete,
    well-formed GGUF file.
    """
    first = _read_part(Path(path), 0)
    count = first.metadata.get("split.count", 0)
    if not isinstance(count, int) or count <= 1:
        return first
    number = first.metadata.get("split.no", 0)
    names = _part_paths(first.path, number, count)
    if number != 0:
        raise ModelError(
            f"{first.path} is part {number + 1} of {count} of a model: give the first, {names[0]}"
        )
    others = [_read_part(name, index) for index, name in enumerate(names) if index]
    for index, other in enumerate(others, 1):
        if other.metadata.get("split.no") != index:
            raise ModelError(
                f"{other.path} isn't part {index + 1} of {first.path}: download the parts again"
            )
    return _joined(first, others)


def _part_paths(path: Path, number: Any, count: int) -> list[Path]:
    """The paths of all parts of a model, told from the path of part `number` (from 0)."""
    ending = f"-{number + 1:05d}-of-{count:05d}.gguf" if isinstance(number, int) else ""
    if not ending or not path.name.endswith(ending):
        raise ModelError(
            f"{path} says it is one of {count} parts, but isn't named like it: "
            f"name the parts NAME-00001-of-{count:05d}.gguf and so on"
        )
    stem = path.name.removesuffix(ending)
    return [path.with_name(f"{stem}-{i + 1:05d}-of-{count:05d}.gguf") for i in range(count)]


def _joined(first: GGUFFile, others: list[GGUFFile]) -> GGUFFile:
    tensors = dict(first.tensors)
    for other in others:
        for name, info in other.tensors.items():
            if name in tensors:
                raise ModelError(f"{other.path}: tensor '{name}' is in an earlier part too")
            tensors[name] = info
    expected = first.metadata.get("split.tensors.count", len(tensors))
    if expected != len(tensors):
        raise ModelError(
            f"{first.path}: its parts hold {len(tensors)} tensors instead of {expected}: "
            "download the parts again"
        )
    files = [first, *others]
    return GGUFFile(
        path=first.path,
        version=first.version,
        metadata=first.metadata,
        tensors=tensors,
        parts=tuple(file.path for file in files),
        _maps=tuple(file._maps[0] for file in files),
    )


def _read_part(path: Path, part: int) -> GGUFFile:
    mapped = _map(path)
    reader = _Reader(path, mapped)
    version = _read_version(reader)
    n_tensors = reader.count("tensors", _SMALLEST_TENSOR)
    n_pairs = reader.count("metadata entries", _SMALLEST_PAIR)
    metadata = _read_metadata(reader, n_pairs)
    tensors = _read_tensors(reader, n_tensors, metadata, part)
    return GGUFFile(path, version, metadata, tensors, (path,), (mapped,))


def _map(path: Path) -> mmap.mmap:
    """Map a whole file for reading; its first four bytes must be GGUF's."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
            if magic == b"GGUF":
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.ENOENT:
            raise ModelError(f"{path} doesn't exist: check the path") from None
        if number == errno.EISDIR:
            raise ModelError(f"{path} is a directory, not a GGUF file") from None
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ModelError(f"{path} can't be read: {reason}") from None
    if not magic:
        raise ModelError(f"{path} is empty: download it again")
    raise ModelError(f"{path} isn't a GGUF file: it begins with {magic!r}, not with b'GGUF'")


class _Reader:
    """A position in a mapped file; every read past the end is a `ModelError`."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 4
        self.end = len(data)
        self.array_values = 0

    def bad(self, what: str) -> ModelError:
        return ModelError(f"{self.path} is damaged: {what}; download or convert it again")

    def truncated(self) -> ModelError:
        return self.bad(f"it ends too early, after {self.end} bytes")

    def number(self, form: str) -> Any:
        try:
            (value,) = struct.unpack_from(form, self.data, self.at)
        except struct.error:
            raise self.truncated() from None
        self.at += struct.calcsize(form)
        return value

    def count(self, of: str, smallest: int) -> int:
        """A count of things that take at least `smallest` bytes each, so it can't be made up."""
        count: int = self.number("<Q")
        if count > (self.end - self.at) // smallest:
            raise self.bad(f"{count} {of} can't fit in {self.end} bytes")
        return count

    def string(self) -> str:
        return self.text().decode("utf-8", "surrogateescape")

    def text(self) -> bytes:
        length = self.count("bytes of text", 1)
        self.at += length
        return self.data[self.at - length : self.at]

    def value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(key)
        if kind not in _NUMBERS:
            raise self.bad(f"metadata '{_short(key)}' is of the unknown type {kind}")
        return self.number(_NUMBERS[kind][0])

    def array(self, key: str) -> list[Any]:
        kind: int = self.number("<I")
        if kind != _STRING and kind not in _NUMBERS:
            raise self.bad(f"metadata '{_short(key)}' is an array of the unknown type {kind}")
        dtype = np.dtype(_NUMBERS[kind][1]) if kind in _NUMBERS else None
        count = self.count("array values", dtype.itemsize if dtype else 8)
        self.array_values += count
        if self.array_values > _MAX_ARRAY_VALUES:
            raise self.bad(f"its metadata arrays hold more than {_MAX_ARRAY_VALUES} values")
        if dtype is None:
            return self.strings(count)
        values = np.frombuffer(self.data, dtype, count, self.at) if count else np.empty(0, dtype)
        self.at += values.nbytes
        plain: list[Any] = values.tolist()
        return plain

    def strings(self, count: int) -> list[str]:
        """`count` strings: one tight loop, since vocabularies and merges are most of a header."""
        read_length: Callable[..., tuple[int]] = struct.Struct("<Q").unpack_from
        data, at, end = self.data, self.at, self.end
        found: list[str] = []
        append = found.append
        try:
            for _ in range(count):
                start = at + 8
                at = start + read_length(data, at)[0]
                if at > end:
                    raise self.truncated()
                append(data[start:at].decode("utf-8", "surrogateescape"))
        except struct.error:
            raise self.truncated() from None
        self.at = at
        return found


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _read_version(reader: _Reader) -> int:
    version: int = reader.number("<I")
    if version & 0xFFFF == 0 and version:
        raise ModelError(f"{reader.path} is a big-endian GGUF file: convert it for this machine")
    if version not in (2, 3):
        raise ModelError(f"{reader.path} is GGUF version {version}; versions 2 and 3 are supported")
    return version


def _read_metadata(reader: _Reader, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = reader.string()
        if not key or key in metadata:
            raise reader.bad(f"metadata key '{_short(key)}' " + ("repeats" if key else "is empty"))
        kind: int = reader.number("<I")
        metadata[key] = reader.value(kind, key)
        if key == "general.alignment":
            alignment = metadata[key]
            if kind != _UINT32 or alignment == 0 or alignment & (alignment - 1):
                raise reader.bad("general.alignment isn't a power of two of type uint32")
    return metadata


def _read_tensors(
    reader: _Reader, count: int, metadata: dict[str, Any], part: int
) -> dict[str, TensorInfo]:
    """The tensor directory; offsets in it count from the first aligned byte after it."""
    alignment: int = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    entries = [_read_tensor(reader) for _ in range(count)]
    start = _aligned(reader.at, alignment)
    expected = 0
    tensors: dict[str, TensorInfo] = {}
    for name, shape, kind, offset in entries:
        if name in tensors:
            raise reader.bad(f"tensor '{name}' is listed twice")
        if offset != expected:
            raise reader.bad(f"tensor '{name}' is at offset {offset} instead of {expected}")
        n_values = 1
        for length in shape:
            n_values *= length
        nbytes = n_values // kind.block_values * kind.block_bytes
        if start + offset + nbytes > reader.end:
            raise reader.bad(
                f"the data of tensor '{name}' ends at byte {start + offset + nbytes}, "
                f"but the file after {reader.end}"
            )
        tensors[name] = TensorInfo(name, shape, kind, start + offset, nbytes, part)
        expected = _aligned(offset + nbytes, alignment)
    return tensors


def _read_tensor(reader: _Reader) -> tuple[str, tuple[int, ...], TensorType, int]:
    encoded = reader.text()
    if len(encoded) > _MAX_NAME_BYTES:
        raise reader.bad(f"a tensor name is {len(encoded)} bytes long, more than {_MAX_NAME_BYTES}")
    name = encoded.decode("utf-8", "surrogateescape")
    n_dimensions: int = reader.number("<I")
    if n_dimensions > _MAX_DIMENSIONS:
        raise reader.bad(
            f"tensor '{name}' has {n_dimensions} dimensions, more than {_MAX_DIMENSIONS}"
        )
    lengths: list[int] = [reader.number("<Q") for _ in range(n_dimensions)]
    number: int = reader.number("<I")
    kind = BY_NUMBER.get(number)
    if kind is None:
        raise ModelError(
            f"{reader.path}: tensor '{name}' is of the unknown type {number}; "
            "convert the model to a supported one, for example Q8_0"
        )
    row = lengths[0] if lengths else 1
    if row % kind.block_values:
        raise reader.bad(
            f"tensor '{name}' has rows of {row}, not whole blocks of {kind.block_values}"
        )
    offset: int = reader.number("<Q")
    return name, tuple(reversed(lengths)), kind, offset


def _aligned(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) // alignment * alignment
