"""Measures speed: this server, `mlx_lm.server` and the bare model, on the same weights."""
