"""Rotary position embedding with llama.cpp's ways of stretching it, computed as it does."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.nn.layers.positional_encoding import RoPE

Scaling = Literal["none", "linear", "yarn", "longrope"]


@dataclass(frozen=True)
class RopeOptions:
    """What the command line may say against the file; None leaves the file's word.

    The fields are llama-server's `--rope-scaling`, `--rope-freq-base`, `--rope-freq-scale`,
    `--yarn-orig-ctx`, `--yarn-ext-factor`, `--yarn-attn-factor`, `--yarn-beta-fast` and
    `--yarn-beta-slow`.
    """

    scaling: Scaling | None = None
    freq_base: float | None = None
    freq_scale: float | None = None
    orig_ctx: int | None = None
    ext_factor: float | None = None
    attn_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None


@dataclass(frozen=True)
class Rope:
    """One layer's rotation: `dims` of a head's values are turned, with base and stretching.

    `factors` are divisors of the frequencies, float32 [dims / 2]; `attn_factor` multiplies what
    is turned; `ext_factor` blends YaRN in, 0 for none.
    """

    dims: int
    traditional: bool
    freq_base: float
    freq_scale: float = 1.0
    factors: npt.NDArray[np.float32] | None = None
    attn_factor: float = 1.0
    ext_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    orig_ctx: int = 0

    def module(self) -> Module:
        """The layer that does it: MLX's own where nothing but base and scale is asked for."""
        if self.factors is None and self.ext_factor == 0 and self.attn_factor == 1:
            return RoPE(
                self.dims, traditional=self.traditional, base=self.freq_base, scale=self.freq_scale
            )
        return StretchedRoPE(self.dims, self.traditional, self._periods(), self._magnitude())

    def _periods(self) -> npt.NDArray[np.float32]:
        """Positions per radian of each pair, the inverse of its frequency."""
        pairs = np.arange(self.dims // 2)
        frequencies = self.freq_base ** (-2.0 * pairs / self.dims)
        if self.factors is not None:
            frequencies = frequencies / self.factors
        kept = np.zeros(len(pairs))
        if self.ext_factor:
            low = max(0.0, math.floor(self._pair_turning(self.beta_fast)))
            high = min(self.dims - 1.0, math.ceil(self._pair_turning(self.beta_slow)))
            ramp = np.clip((pairs - low) / max(0.001, high - low), 0, 1)
            kept = (1 - ramp) * self.ext_factor
        frequencies = frequencies * (self.freq_scale * (1 - kept) + kept)
        return (1 / frequencies).astype(np.float32)

    def _pair_turning(self, turns: float) -> float:
        """The pair, as a fraction, that turns this often within the original context."""
        log_period = math.log(self.orig_ctx / (turns * 2 * math.pi))
        return self.dims * log_period / (2 * math.log(self.freq_base))

    def _magnitude(self) -> float:
        if not self.ext_factor:
            return self.attn_factor
        return self.attn_factor * (1 + 0.1 * math.log(1 / self.freq_scale))


class StretchedRoPE(Module):
    """Rotary embedding by explicit periods, as mlx-lm's scaled ones are, but in either layout."""

    def __init__(
        self, dims: int, traditional: bool, periods: npt.NDArray[np.float32], magnitude: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dims = dims
        self.traditional = traditional
        self.magnitude = magnitude
        # The underscore keeps it from being a parameter of the model.
        self._freqs = mx.array(periods)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        if self.magnitude != 1:
            x = x.at[..., : self.dims].multiply(self.magnitude)
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=None,
            scale=1.0,
            offset=offset,
            freqs=self._freqs,
        )


def yarn_attn_factor(freq_scale: float, log_multiplier: float) -> float:
    """The attention factor under YaRN, where llama.cpp takes its own and ignores the option."""
    factor = 1 / freq_scale

    def magnitude(multiplier: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * multiplier * math.log(factor) + 1

    wanted = magnitude(1.0) / (magnitude(log_multiplier) if log_multiplier else 1.0)
    return wanted / (1 + 0.1 * math.log(factor))


def as_scaling(value: Any) -> Scaling | None:
    """The name of a kind of scaling, None if llama.cpp knows none of this name."""
    known: dict[Any, Scaling] = {
        "none": "none",
        "linear": "linear",
        "yarn": "yarn",
        "longrope": "longrope",
    }
    return known.get(value) if isinstance(value, str) else None
