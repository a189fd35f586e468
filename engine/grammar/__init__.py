"""Grammars that generation can be made to follow, in llama.cpp's notation (GBNF)."""

from engine.grammar.lazy import LazyGrammar, Trigger, TriggerKind
from engine.grammar.matcher import Matcher
from engine.grammar.parser import parse_grammar
from engine.grammar.pieces import pieces_of
from engine.grammar.rules import Element, Grammar, GrammarError, Kind, Rule

__all__ = [
    "Element",
    "Grammar",
    "GrammarError",
    "Kind",
    "LazyGrammar",
    "Matcher",
    "Rule",
    "Trigger",
    "TriggerKind",
    "parse_grammar",
    "pieces_of",
]
