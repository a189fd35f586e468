"""Laying out Python: what is written says the same, within the line width."""

import ast

from hypothesis import example, given
from hypothesis import strategies as st

from codegen.layout import WIDTH, call, docstring, literal, string

TEXT = st.text(st.sampled_from("ab \"'\\\n{}é"), max_size=40) | st.lists(
    st.sampled_from(["word", "a-hyphen", '"quoted"', "it's", "back\\slash"]), max_size=40
).map(" ".join)


@given(TEXT)
def test_a_literal_is_the_value(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


@given(TEXT, st.integers(0, 20))
@example("word " * 30 + " ", 8)
def test_a_long_string_is_the_value_in_parts(text: str, indent: int) -> None:
    laid_out = string(text, indent)
    assert ast.literal_eval(f"({laid_out})") == text
    if max(map(len, text.split()), default=0) < 40 and "\n" not in text:
        assert all(len(line) < WIDTH for line in laid_out.split("\n")[1:])


def test_only_parts_with_braces_are_filled_in() -> None:
    text = f"{'x' * 60} {'y' * 30} {{name}} '"
    assert string(text, 4, braces=True) == f'"{"x" * 60} {"y" * 30}"\n    f" {{name}} \'"'


@given(TEXT, st.integers(0, 20))
def test_a_docstring_is_the_text(text: str, indent: int) -> None:
    laid_out = docstring(text, indent)
    value = ast.literal_eval(laid_out)
    assert value.split() == text.replace('"""', "'''").split()
    assert all(len(line) <= WIDTH for line in (" " * indent + laid_out).split("\n"))


def test_a_call_on_one_line_or_its_arguments_on_one_or_one_on_each() -> None:
    assert call("f", ["a", "b=1"], ",", 4) == "f(a, b=1),"
    wide = ["a" * 44, "b" * 44]
    assert call("read_it_all", wide, "", 4) == (
        f"read_it_all(\n        {wide[0]}, {wide[1]}\n    )"
    )
    wider = ["a" * 50, "b" * 50]
    assert call("f", wider, ",") == f"f(\n    {wider[0]},\n    {wider[1]},\n),"
    keywords = ["*", "a" * 40, "b" * 40]
    assert call("def long_name", keywords, ":") == (
        f"def long_name(\n    *,\n    {keywords[1]},\n    {keywords[2]},\n):"
    )
