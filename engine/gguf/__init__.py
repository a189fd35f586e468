"""GGUF model files: their metadata and tensors, and the tensors' values as MLX holds them."""

from engine.gguf.file import GGUFFile, TensorInfo, read_gguf

__all__ = ["GGUFFile", "TensorInfo", "read_gguf"]
