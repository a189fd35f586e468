"""Grammars that generation can be made to follow, in llama.cpp's notation (GBNF)."""

from engine.grammar.matcher import Matcher
from engine.grammar.parser import parse_grammar
from engine.grammar.rules import Element, Grammar, GrammarError, Kind, Rule

__all__ = ["Element", "Grammar", "GrammarError", "Kind", "Matcher", "Rule", "parse_grammar"]
