"""Runs models on MLX: loading, tokenizing, slots, scheduling, sampling; knows no HTTP, no JSON."""

from engine.blas import use_openblas
from engine.light_mlx_lm import import_models_only

use_openblas()
import_models_only()
