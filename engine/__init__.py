"""Runs models on MLX: loading, tokenizing, slots, scheduling and sampling. Knows nothing of HTTP or JSON bodies."""

from engine.blas import use_openblas

use_openblas()
