"""Triggers of lazy grammars and budgets of reasoning, where no recorded reply shows them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from engine.grammar import Trigger, TriggerKind, lazy
from engine.grammar.ecmascript import compile_pattern
from engine.sampling import Sampler
from generated.options import Settings
from generated.requests.completion import read_completion
from handlers import grammars
from handlers.main import run
from handlers.reading import CompletionReading
from tests.sampling_cases import Letters, params

LETTERS = Letters(b"", b"a", b"b", b"c", b"<", b">", b"!")
END, A, B, C, OPEN, CLOSE, BANG = range(7)


def sampler(**changes: object) -> Sampler:
    return Sampler(params(temperature=0, samplers=[], **changes), len(LETTERS.texts), LETTERS)


def prefers(*tokens: int) -> np.ndarray:
    """Logits with these tokens in front, the first one highest."""
    logits = np.zeros(len(LETTERS.texts), dtype=np.float32)
    for rank, token in enumerate(tokens):
        logits[token] = 100 - 30 * rank
    return logits


def say(chain: Sampler, *wanted: np.ndarray) -> list[int]:
    chosen = []
    for logits in wanted:
        chosen.append(chain.sample(logits))
        chain.accept(chosen[-1])
    return chosen


def test_a_running_reasoning_can_be_ended() -> None:
    chain = sampler(
        reasoning_control=True, reasoning_start=(OPEN,), reasoning_ends=((CLOSE,),),
        reasoning_forced=(BANG, CLOSE),
    )  # fmt: skip
    assert not chain.end_reasoning()
    assert say(chain, prefers(OPEN), prefers(A)) == [OPEN, A]
    assert chain.end_reasoning()
    assert not chain.end_reasoning()
    assert say(chain, prefers(A), prefers(A), prefers(A)) == [BANG, CLOSE, A]
    assert not chain.end_reasoning()


def test_a_second_reasoning_has_a_budget_of_its_own() -> None:
    chain = sampler(
        reasoning_budget_tokens=2, reasoning_start=(OPEN,), reasoning_ends=((CLOSE,),),
        reasoning_forced=(CLOSE,),
    )  # fmt: skip
    wanted = [OPEN, A, A, A, B, OPEN, B, B, B, C]
    expected = [OPEN, A, A, CLOSE, B, OPEN, B, B, CLOSE, C]
    assert say(chain, *map(prefers, wanted)) == expected


def test_a_lazy_grammar_waits_for_the_end_of_a_reasoning() -> None:
    chain = sampler(
        reasoning_start=(OPEN,), reasoning_ends=((CLOSE,),), reasoning_forced=(CLOSE,),
        grammar='root ::= ">" "c" "b"', grammar_lazy=True,
        grammar_triggers=(Trigger(TriggerKind.WORD, "a"), Trigger(TriggerKind.TOKEN, ">", CLOSE)),
    )  # fmt: skip
    wanted = [OPEN, A, A, CLOSE, A, A, A]
    assert say(chain, *map(prefers, wanted[:4])) == [OPEN, A, A, CLOSE]
    assert say(chain, prefers(A, C), prefers(A, B), prefers(A, END)) == [C, B, END]


def test_a_pattern_that_takes_too_long_fails_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "_PATIENCE", 0.01)
    pattern = lazy._Pattern(r"(a|aa)+(a|aa)+(a|aa)+(a|aa)+b\1\2\3\4$")
    with pytest.raises(ValueError, match="the pattern of a grammar trigger takes too long"):
        pattern.find(b"a" * 60 + b"bc")


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        ("a.c", b"a\nc abc", (4, 7)),
        ("x$", b"x\nx", (2, 3)),
        ("^a", b"ba", None),
        (r"\d+", "٣7".encode(), (2, 3)),
        ("[^a]", b"a\n", (1, 2)),
        ("[]", b"a", None),
        ("é?b", "éb".encode(), (0, 3)),
        (r"[\d-]+", b"a1-2", (1, 4)),
        (r"\x41\u0042\cJ", b"ABJ", (0, 3)),
        (r"(a)|b\1", b"cb", None),
        ("a{2}{2}", b"aaaaa", (0, 4)),
    ],
)
def test_patterns_as_cpp_reads_them(
    pattern: str, text: bytes, span: tuple[int, int] | None
) -> None:
    found = compile_pattern(pattern).search(text)
    assert (found and found.span()) == span


def test_the_command_lines_grammar_is_the_default() -> None:
    settings = replace(Settings(), grammar='root ::= "x"')
    reading = CompletionReading(None, settings)  # type: ignore[arg-type]
    given = {"grammar": 'root ::= "y"'}
    assert read_completion({}, settings, reading).grammar == 'root ::= "x"'
    assert read_completion({"grammar": ""}, settings, reading).grammar == 'root ::= "x"'
    assert read_completion(given, settings, reading).grammar == 'root ::= "y"'
    assert grammars.begins_in_prompt({}, by_default=True)
    assert not grammars.begins_in_prompt(given, by_default=True)


def test_the_command_lines_schema_becomes_that_grammar() -> None:
    settings = replace(Settings(), json_schema='{"const": 1}')
    assert re.match(r'root ::= "1"\n', grammars.default_grammar(settings))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-j", '{"type": "foo"}'],
         'error: the JSON schema given with --json-schema: JSON schema conversion failed:\n'
         'Unrecognized schema: {"type":"foo"}\n'),
        (["-j", "{}", "--grammar", "x"], "error: give a grammar or a JSON schema, not both\n"),
    ],
)  # fmt: skip
def test_what_the_server_does_not_start_with(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["-m", "none.gguf", *arguments]) == 1
    assert capsys.readouterr().err == message
