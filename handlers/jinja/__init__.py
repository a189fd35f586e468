"""Jinja as llama.cpp reads it: chat templates are parsed and rendered by its rules, where they differ from Python's Jinja too.

Texts are bytes (UTF-8), since llama.cpp counts, cuts and compares bytes. Templates see the
values they are given and the builtins here, and nothing of Python.
"""
