"""Jinja as llama.cpp reads it: parses and renders chat templates by its rules, not Python's.

Texts are bytes (UTF-8), since llama.cpp counts, cuts and compares bytes. Templates see the
values they are given and the builtins here, and nothing of Python.
"""
