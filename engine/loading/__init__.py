"""Loads models for serving: GGUF files, and directories as Hugging Face and MLX have them."""

from engine.loading.load import load_model
from engine.loading.rope import RopeOptions
from engine.loading.types import LoadedModel, Progress, Weights

__all__ = ["LoadedModel", "Progress", "RopeOptions", "Weights", "load_model"]
