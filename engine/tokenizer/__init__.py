"""Tokenisation identical to llama.cpp's, from GGUF metadata or a Hugging Face directory.

A text is split at special tokens (`partition`), what lies between is cut and merged by the
vocabulary's own encoder (`bpe`, `spm`, `wpm`, `ugm`, `longest`, `plamo2`).
"""

from engine.tokenizer.tokenizer import Tokenizer
from engine.tokenizer.vocab import UnsupportedTokenizer, VocabType

__all__ = ["Tokenizer", "UnsupportedTokenizer", "VocabType"]
