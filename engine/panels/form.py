"""How a panel's weights are stored."""

from dataclasses import dataclass
from typing import Literal

# Rows of a panel: what the widest vectors of today's processors hold of float32.
LANES = 16


@dataclass(frozen=True, slots=True)
class Form:
    """The storage of a panel, group after group of `group_size` columns.

    A group of kind "affine" is 16 scales, 16 biases, and for each column 16 quants of `bits`,
    4 or 8; two columns of 4 bits share bytes, the first in the low halves. The other kinds are
    16 numbers for each column.
    """

    kind: Literal["affine", "float32", "float16", "bfloat16"]
    bits: int
    group_size: int
    half_scales: bool = False

    @property
    def name(self) -> str:
        """What its functions are called."""
        half = "_half" if self.half_scales else ""
        return f"{self.kind}_{self.bits}_{self.group_size}{half}"

    @property
    def scale_bytes(self) -> int:
        """Bytes of a group's scales, and as many of its biases."""
        if self.kind != "affine":
            return 0
        return LANES * (2 if self.half_scales else 4)

    @property
    def group_bytes(self) -> int:
        """Bytes of a group."""
        return 2 * self.scale_bytes + LANES * self.group_size * self.bits // 8


# Columns that the functions for plain numbers take in one go.
_UNROLLED = 8

FLOAT32 = Form("float32", 32, _UNROLLED)
FLOAT16 = Form("float16", 16, _UNROLLED)
BFLOAT16 = Form("bfloat16", 16, _UNROLLED)
