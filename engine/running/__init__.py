"""Runs a model over tokens, one sequence or many rows at once."""
