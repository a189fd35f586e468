"""The types that keys and values can be held in: llama.cpp's names, and MLX's forms of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

GROUP = 32
"""Numbers that share a scale and a bias, as many as in llama.cpp's blocks."""

_FLOATS = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
_BITS = {"q8_0": 8, "q5_0": 5, "q5_1": 5, "q4_0": 4, "q4_1": 4}
_INSTEAD = {"iq4_nl": "q4_0 or q4_1"}


class CacheType(ABC):
    """How keys or values [B, H, T, D] are held: as one array [B, H, T, …] or several."""

    name: str
    n_arrays: int
    bits: int
    """Of a code; 0 if the numbers themselves are held."""

    @abstractmethod
    def pack(self, numbers: mx.array) -> list[mx.array]:
        """What is held of `numbers`; raises ValueError for a D that the type can't hold."""

    @abstractmethod
    def unpack(self, arrays: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        """The numbers that are held, as `dtype`."""


@dataclass(frozen=True)
class FloatType(CacheType):
    """One number for one, in a type of its own or, with None, the one that they come in."""

    name: str
    dtype: mx.Dtype | None
    n_arrays = 1
    bits = 0

    def pack(self, numbers: mx.array) -> list[mx.array]:
        """The numbers themselves."""
        return [numbers if self.dtype is None else numbers.astype(self.dtype)]

    def unpack(self, arrays: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        """The numbers themselves."""
        return arrays[0].astype(dtype)


@dataclass(frozen=True)
class AffineType(CacheType):
    """MLX's affine quantisation: codes of a few bits, and for each 32 of them a scale and a bias.

    llama.cpp's types with a scale only are the same but for the bias, which makes them no worse.
    As there, numbers are turned before, so that a large one doesn't cost its neighbours their bits.
    """

    name: str
    bits: int
    n_arrays = 3

    def pack(self, numbers: mx.array) -> list[mx.array]:
        """Codes (uint32), scales and biases (16 bits)."""
        if numbers.shape[-1] % GROUP:
            size = numbers.shape[-1]
            raise ValueError(f"{GROUP} doesn't divide this model's heads of {size}: use f16")
        codes, scales, biases = mx.quantize(turned(numbers), GROUP, self.bits)
        if numbers.dtype == mx.float32:
            # llama.cpp's scales have 16 bits too; 32 would take more than the codes save.
            scales, biases = scales.astype(mx.float16), biases.astype(mx.float16)
        return [codes, scales, biases]

    def unpack(self, arrays: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        """The nearest numbers."""
        codes, scales, biases = (arrays[0], *(a.astype(dtype) for a in arrays[1:]))
        return turned(mx.dequantize(codes, scales, biases, GROUP, self.bits))


def turned(numbers: mx.array) -> mx.array:
    """Every number spread over the whole head; turned once more, it is what it was.

    Products stay the same if both sides are turned. Heads that aren't a power of 2 are let be.
    """
    size = numbers.shape[-1]
    return numbers if size & (size - 1) else mx.hadamard_transform(numbers)


def cache_type(name: str) -> CacheType:
    """The type of llama.cpp's `name`, or for an empty one whatever the model computes with.

    Raises ValueError, in one line, for a type that MLX has no form of.
    """
    if name in _BITS:
        return AffineType(name, _BITS[name])
    if not name or name in _FLOATS:
        return FloatType(name, _FLOATS.get(name))
    instead = _INSTEAD.get(name, f"one of {', '.join((*_FLOATS, *_BITS))}")
    raise ValueError(f"MLX has no form of {name} for a KV cache: use {instead}")


def dtype_name(dtype: mx.Dtype) -> str:
    """llama.cpp's name of a float type."""
    return next((name for name, known in _FLOATS.items() if known == dtype), str(dtype))
