"""Answers the generated routes in llama.cpp's vocabulary; knows neither JSON validation nor MLX."""
