"""Reading GGUF files: metadata, tensors, parts, and every way in which a file can be broken."""

import os
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.gguf import read_gguf


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a value of every kind and three tensors."""
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_uint8("u8", 255)
    w.add_int8("i8", -128)
    w.add_uint16("u16", 65535)
    w.add_int16("i16", -2)
    w.add_uint32("u32", 2**32 - 1)
    w.add_int32("i32", -3)
    w.add_uint64("u64", 2**64 - 1)
    w.add_int64("i64", -(2**63))
    w.add_float32("f32", 0.5)
    w.add_float64("f64", 0.1)
    w.add_bool("yes", True)
    w.add_string("text", "naïve ▁")
    w.add_array("strings", ["a", "", "ĠÄ"])
    w.add_array("numbers", [1, -2, 3])
    w.add_array("floats", [0.5, -1.5])
    w.add_array("flags", [True, False])
    w.add_tensor("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("halves", np.ones((5,), np.float16))
    w.add_tensor(
        "quants",
        np.arange(68, dtype=np.uint8).reshape(2, 34),
        raw_dtype=gguf.GGMLQuantizationType.Q8_0,
    )
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def test_metadata(small: Path) -> None:
    assert read_gguf(small).metadata == {
        "general.architecture": "llama",
        "u8": 255,
        "i8": -128,
        "u16": 65535,
        "i16": -2,
        "u32": 2**32 - 1,
        "i32": -3,
        "u64": 2**64 - 1,
        "i64": -(2**63),
        "f32": 0.5,
        "f64": 0.1,
        "yes": True,
        "text": "naïve ▁",
        "strings": ["a", "", "ĠÄ"],
        "numbers": [1, -2, 3],
        "floats": [0.5, -1.5],
        "flags": [True, False],
    }


def test_tensors(small: Path) -> None:
    file = read_gguf(small)
    assert (file.version, file.parts) == (3, (small,))
    assert {t.name: (t.shape, t.type.name, t.nbytes, t.size) for t in file.tensors.values()} == {
        "matrix": ((2, 3), "f32", 24, 6),
        "halves": ((5,), "f16", 10, 5),
        "quants": ((2, 32), "q8_0", 68, 64),
    }
    assert file.raw("matrix").view("<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert file.raw("quants").tolist() == list(range(68))
    assert not file.raw("matrix").flags.writeable


def test_strings_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "bytes.gguf"
    path.write_bytes(header(pairs=pair("k", 8, text(b"\xff\xfe"))))
    assert read_gguf(path).metadata["k"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_large_vocabulary_is_read_quickly(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    w = gguf.GGUFWriter(str(path), "llama")
    tokens = [f"token {i}" for i in range(150_000)]
    w.add_token_list(tokens)
    w.add_token_types([1] * len(tokens))
    w.add_token_scores([0.0] * len(tokens))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    start = time.perf_counter()
    metadata = read_gguf(path).metadata
    # It takes a tenth of this; a reader that looks at every byte in Python takes ten times it.
    assert time.perf_counter() - start < 1
    assert metadata["tokenizer.ggml.tokens"] == tokens


def text(value: bytes | str) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(encoded)) + encoded


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: list[int], kind: int, offset: int) -> bytes:
    lengths = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + lengths + struct.pack("<IQ", kind, offset)


def header(
    *, pairs: bytes = b"", tensors: bytes = b"", n_pairs: int | None = None,
    n_tensors: int | None = None, version: int = 3,
) -> bytes:  # fmt: skip
    """A file's beginning; the counts are 1 where something is given, unless told otherwise."""
    counts = (
        bool(tensors) if n_tensors is None else n_tensors,
        bool(pairs) if n_pairs is None else n_pairs,
    )
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + pairs + tensors


HUGE = 2**63
BROKEN = {
    "empty": (b"", "is empty: download it again"),
    "other": (
        b"PK\3\4 a zip",
        r"isn't a GGUF file: it begins with b'PK\\x03\\x04', not with b'GGUF'",
    ),
    "short": (
        b"GGUF\3\0",
        "is damaged: it ends too early, after 6 bytes; download or convert it again",
    ),
    "v1": (header(version=1), "is GGUF version 1; versions 2 and 3 are supported"),
    "v4": (header(version=4), "is GGUF version 4; versions 2 and 3 are supported"),
    "big-endian": (
        header(version=3 << 24),
        "is a big-endian GGUF file: convert it for this machine",
    ),
    "pairs": (header(n_pairs=HUGE), f"is damaged: {HUGE} metadata entries can't fit in 24 bytes;"),
    "tensors": (header(n_tensors=HUGE), f"is damaged: {HUGE} tensors can't fit in 24 bytes;"),
    "key": (header(pairs=struct.pack("<Q", HUGE) + b"x" * 9), f"{HUGE} bytes of text can't fit"),
    "no-key": (header(pairs=pair("", 0, b"\1") + b"\0"), "metadata key '' is empty"),
    "twice": (header(pairs=pair("k", 0, b"\1") * 2, n_pairs=2), "metadata key 'k' repeats"),
    "kind": (header(pairs=pair("k", 13, b"\1")), "metadata 'k' is of the unknown type 13"),
    "nested": (
        header(pairs=pair("k", 9, struct.pack("<IQ", 9, 1) + b"\0" * 20)),
        "metadata 'k' is an array of the unknown type 9",
    ),
    "array": (
        header(pairs=pair("k", 9, struct.pack("<IQ", 0, HUGE))),
        f"{HUGE} array values can't fit",
    ),
    "strings": (
        header(pairs=pair("k", 9, struct.pack("<IQ", 8, HUGE))),
        f"{HUGE} array values can't",
    ),
    "string": (
        header(pairs=pair("k", 9, struct.pack("<IQQ", 8, 1, HUGE))),
        "it ends too early",
    ),
    "alignment": (
        header(pairs=pair("general.alignment", 4, struct.pack("<I", 24))),
        "general.alignment isn't a power of two of type uint32",
    ),
    "name": (
        header(tensors=tensor("x" * 64, [1], 0, 0)),
        "a tensor name is 64 bytes long, more than 63",
    ),
    "dimensions": (
        header(tensors=tensor("t", [1] * 5, 0, 0)),
        "tensor 't' has 5 dimensions, more than 4",
    ),
    "type": (
        header(tensors=tensor("t", [1], 4, 0)),
        "tensor 't' is of the unknown type 4; convert",
    ),
    "row": (
        header(tensors=tensor("t", [33], 8, 0)),
        "tensor 't' has rows of 33, not whole blocks of 32",
    ),
    "offset": (header(tensors=tensor("t", [1], 0, 32)), "tensor 't' is at offset 32 instead of 0"),
    "size": (
        header(tensors=tensor("t", [HUGE, HUGE], 0, 0)),
        "the data of tensor 't' ends at byte",
    ),
    "two": (
        header(tensors=tensor("t", [0], 0, 0) * 2, n_tensors=2) + b"\0" * 64,
        "tensor 't' is listed twice",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    content, message = BROKEN[name]
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        read_gguf(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_gguf(tmp_path / "none.gguf")
    assert str(caught.value) == f"{tmp_path}/none.gguf doesn't exist: check the path"
    with pytest.raises(ModelError, match=r"is a directory, not a GGUF file$"):
        read_gguf(tmp_path)


def test_a_message_is_one_line_whatever_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(header(pairs=pair("a\nb\x1b[31m", 99, b"")))
    with pytest.raises(ModelError) as caught:
        read_gguf(path)
    expected = "is damaged: metadata 'a b\N{REPLACEMENT CHARACTER}[31m' is of the unknown type 99;"
    assert str(caught.value).startswith(f"{path} {expected}")


def test_a_file_cut_at_any_byte(small: Path, tmp_path: Path) -> None:
    whole = small.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        # Padding after the last tensor is nothing that could be missed.
        if length < read_gguf(small).tensors["quants"].offset + 68:
            with pytest.raises(ModelError):
                read_gguf(path)


@settings(max_examples=400, deadline=2000, suppress_health_check=list(HealthCheck))
@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8)
)
def test_changed_bytes_give_a_file_or_an_error(small: Path, flips: list[tuple[int, int]]) -> None:
    content = bytearray(small.read_bytes())
    for at, value in flips:
        content[at % len(content)] = value
    path = small.with_name("changed.gguf")
    path.write_bytes(content)
    try:
        file = read_gguf(path)
    except ModelError as error:
        assert str(path) in str(error)
    else:
        assert all(len(file.raw(name)) == t.nbytes for name, t in file.tensors.items())
    # A mapped file must not be cut, so the next example gets a new one.
    os.unlink(path)


def write_parts(folder: Path) -> list[Path]:
    writer = gguf.GGUFWriter(str(folder / "m.gguf"), "llama", split_max_tensors=1)
    writer.add_name("in parts")
    for index in range(3):
        writer.add_tensor(f"t{index}", np.full((2, 2), index, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob("*.gguf"))


def test_parts(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    file = read_gguf(paths[0])
    assert [path.name for path in file.parts] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert file.metadata["general.name"] == "in parts"
    values: dict[str, Any] = {name: file.raw(name).view("<f4").tolist() for name in file.tensors}
    assert values == {"t0": [0] * 4, "t1": [1] * 4, "t2": [2] * 4}


def test_broken_parts(tmp_path: Path) -> None:
    first, second, third = write_parts(tmp_path)
    with pytest.raises(ModelError, match=f"is part 2 of 3 of a model: give the first, {first}$"):
        read_gguf(second)
    renamed = first.rename(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="says it is one of 3 parts, but isn't named like it"):
        read_gguf(renamed)
    renamed.rename(first)
    content = second.read_bytes()
    second.unlink()
    with pytest.raises(ModelError, match=f"^{second} doesn't exist: check the path$"):
        read_gguf(first)
    second.write_bytes(third.read_bytes())
    with pytest.raises(ModelError, match=f"^{second} isn't part 2 of {first}: download the parts"):
        read_gguf(first)
    second.write_bytes(content.replace(b"t1", b"t0"))
    with pytest.raises(ModelError, match="tensor 't0' is in an earlier part too"):
        read_gguf(first)
