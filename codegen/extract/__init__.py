"""Reads the facts of a llama.cpp build from its source: `spec/upstream/*.json`.

Nothing here runs when serving; nothing is guessed: what isn't recognised is a listed error.
"""

from codegen.extract.cli import main

__all__ = ["main"]
