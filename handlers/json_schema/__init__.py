"""JSON Schemas as grammars: the same text as llama.cpp's converter gives, or its refusal."""

from handlers.json_schema.convert import Converter, schema_to_grammar

__all__ = ["Converter", "schema_to_grammar"]
