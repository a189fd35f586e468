"""Says where two canonical answers differ: status, headers, keys and their order, types, values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codegen.capture.probes import Json

_TOLERANT = {"logprob", "prob"}
_TOLERANCE = 1e-3
"""Probabilities come out of float32 arithmetic, which two engines do in different orders."""
_GENERATED = {
    "completion_probabilities", "completion_tokens", "content", "finish_reason", "has_new_line",
    "logprobs", "predicted_n", "stop_type", "stopping_word", "text", "tokens", "tokens_cached",
    "tokens_predicted", "total_tokens",
}  # fmt: skip
"""What depends on the generated text: of these "shape" compares the types only."""


@dataclass(frozen=True)
class Difference:
    """One place where this server answers otherwise."""

    path: str
    reference: str
    ours: str

    def __str__(self) -> str:
        return f"{self.path}: reference {self.reference}, ours {self.ours}"


def differences(
    reference: dict[str, Any], ours: dict[str, Any], compare: str = "exact"
) -> list[Difference]:
    """All differences between two canonical answers; none if they agree."""
    if compare == "shape":
        reference, ours = _steady(reference), _steady(ours)
    return list(_walk("", reference, ours, shape=compare == "shape"))


def _steady(answer: dict[str, Any]) -> dict[str, Any]:
    """Frames that repeat the shape of the one before are left out: their number is the text's."""
    if "frames" not in answer:
        return answer
    kept: list[Any] = []
    for frame in answer["frames"]:
        if not kept or _shape(frame) != _shape(kept[-1]):
            kept.append(frame)
    return {**answer, "frames": kept}


def _shape(value: Json) -> Json:
    if isinstance(value, dict):
        return [(k, _shape(v)) for k, v in value.items()]
    if isinstance(value, list):
        return [_shape(v) for v in value]
    return _kind(value)


def _walk(path: str, reference: Json, ours: Json, *, shape: bool) -> Iterator[Difference]:
    if _kind(reference) != _kind(ours):
        yield Difference(path, _short(reference), _short(ours))
    elif isinstance(reference, dict):
        yield from _objects(path, reference, ours, shape=shape)
    elif isinstance(reference, list):
        if len(reference) != len(ours):
            yield Difference(path, f"{len(reference)} items", f"{len(ours)} items")
        for number, (a, b) in enumerate(zip(reference, ours, strict=False)):
            yield from _walk(f"{path}[{number}]", a, b, shape=shape)
    elif not _same(path, reference, ours):
        yield Difference(path, _short(reference), _short(ours))


def _objects(
    path: str, reference: dict[str, Json], ours: dict[str, Json], *, shape: bool
) -> Iterator[Difference]:
    for key in reference:
        if key not in ours:
            yield Difference(f"{path}.{key}", _short(reference[key]), "nothing")
    for key in ours:
        if key not in reference:
            yield Difference(f"{path}.{key}", "nothing", _short(ours[key]))
    shared = [key for key in reference if key in ours]
    order = [key for key in ours if key in reference]
    if shared != order and path != ".headers":
        yield Difference(f"{path} (order)", " ".join(shared), " ".join(order))
    for key in shared:
        a, b = reference[key], ours[key]
        if shape and key in _GENERATED and (a is None) == (b is None):
            a, b = _kind(a), _kind(b)
        yield from _walk(f"{path}.{key}", a, b, shape=shape)


def _same(path: str, reference: Json, ours: Json) -> bool:
    if isinstance(reference, float) and path.rpartition(".")[2] in _TOLERANT:
        return math.isclose(reference, ours, rel_tol=0, abs_tol=_TOLERANCE)
    return bool(reference == ours)


def _kind(value: Json) -> str:
    return type(value).__name__


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:120]} … {text[-30:]}"
