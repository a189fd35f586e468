"""Takes quantised blocks apart into groups of small integers with a scale and a bias each."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class Groups(NamedTuple):
    """Values as `quants * scales + biases`, in rounding to float32 exactly as ggml defines them.

    `quants` is uint8 [n_groups, group_size]; `scales` and `biases` are float32 [n_groups, 1].
    """

    quants: Bytes
    scales: Floats
    biases: Floats


class AffineForm(NamedTuple):
    """How a type becomes groups: bits of a quant, values in a group, and the unpacking.

    `half_scales` says that scales and biases lose nothing as float16.
    """

    bits: int
    group_size: int
    half_scales: bool
    unpack: Callable[[Bytes], Groups]


def _halves(blocks: Bytes, start: int) -> Floats:
    """The float16 at byte `start` of each block, as float32 [n_blocks, 1]."""
    return blocks[:, start : start + 2].copy().view("<f2").astype(np.float32)


def shifted_left(quants: Bytes, bits: int) -> Bytes:
    """`quants << bits`, which numpy's types take for a wider integer."""
    shifted: Bytes = np.left_shift(quants, bits, dtype=np.uint8)
    return shifted


def _nibbles(packed: Bytes) -> Bytes:
    """[n, k] bytes to [n, 2k] quants of 4 bits: all low halves, then all high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """The four bytes that hold bit 4 of 32 quants, to [n, 32] of 0 or 16."""
    return shifted_left(np.unpackbits(packed, axis=1, bitorder="little"), 4)


def _q4_0(blocks: Bytes) -> Groups:
    scales = _halves(blocks, 0)
    return Groups(_nibbles(blocks[:, 2:]), scales, scales * -8)


def _q4_1(blocks: Bytes) -> Groups:
    return Groups(_nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2))


def _q5_0(blocks: Bytes) -> Groups:
    scales = _halves(blocks, 0)
    return Groups(_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), scales, scales * -16)


def _q5_1(blocks: Bytes) -> Groups:
    quants = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return Groups(quants, _halves(blocks, 0), _halves(blocks, 2))


def _q8_0(blocks: Bytes) -> Groups:
    scales = _halves(blocks, 0)
    return Groups(np.bitwise_xor(blocks[:, 2:], 128, dtype=np.uint8), scales, scales * -128)


def _six_bit_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Twelve bytes per block to eight scales and eight minima of 6 bits, [n, 8] each."""
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales, minima


def _k_groups(blocks: Bytes, quants: Bytes) -> Groups:
    """Groups of Q4_K and Q5_K, whose blocks begin with d, dmin and the packed scales."""
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    return Groups(
        quants.reshape(-1, 32),
        (_halves(blocks, 0) * scales).reshape(-1, 1),
        (_halves(blocks, 2) * minima).reshape(-1, 1) * -1,
    )


def _k_nibbles(packed: Bytes) -> Bytes:
    """128 bytes per block to [4n, 64] quants: each 32 bytes hold 32 low and 32 high ones."""
    return _nibbles(packed.reshape(-1, 32))


def _q4_k(blocks: Bytes) -> Groups:
    return _k_groups(blocks, _k_nibbles(blocks[:, 16:]))


def _q5_k(blocks: Bytes) -> Groups:
    # Bit g of high byte i belongs to value i of group g.
    bits = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little")
    fifth = shifted_left(bits.transpose(0, 2, 1).reshape(-1, 64), 4)
    return _k_groups(blocks, _k_nibbles(blocks[:, 48:]) | fifth)


def _q6_k(blocks: Bytes) -> Groups:
    low = blocks[:, :128].reshape(-1, 2, 64)
    high = blocks[:, 128:192].reshape(-1, 2, 32)
    quants = np.empty((len(blocks), 2, 4, 32), np.uint8)
    quants[:, :, 0] = (low[:, :, :32] & 15) | (high & 3) << 4
    quants[:, :, 1] = (low[:, :, 32:] & 15) | (high >> 2 & 3) << 4
    quants[:, :, 2] = (low[:, :, :32] >> 4) | (high >> 4 & 3) << 4
    quants[:, :, 3] = (low[:, :, 32:] >> 4) | (high >> 6) << 4
    scales = (_halves(blocks, 208) * blocks[:, 192:208].view(np.int8)).reshape(-1, 1)
    return Groups(quants.reshape(-1, 16), scales, scales * -32)


def _q1_0(blocks: Bytes) -> Groups:
    scales = _halves(blocks, 0)
    return Groups(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little"), scales * 2, -scales)


def _q2_0(blocks: Bytes) -> Groups:
    packed = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)
    scales = _halves(blocks, 0)
    return Groups(packed.reshape(len(blocks), 64), scales, -scales)


# MLX's least is 2 bits, so Q1_0's single ones take two there.
AFFINE = {
    "q4_0": AffineForm(4, 32, True, _q4_0),
    "q4_1": AffineForm(4, 32, True, _q4_1),
    "q5_0": AffineForm(5, 32, True, _q5_0),
    "q5_1": AffineForm(5, 32, True, _q5_1),
    "q8_0": AffineForm(8, 32, True, _q8_0),
    "q4_K": AffineForm(4, 32, False, _q4_k),
    "q5_K": AffineForm(5, 32, False, _q5_k),
    "q1_0": AffineForm(2, 128, True, _q1_0),
    "q2_0": AffineForm(2, 64, True, _q2_0),
    "q6_K": AffineForm(6, 16, False, _q6_k),
}
