"""Speculative decoding over HTTP: what the command line accepts and refuses."""

import subprocess

import pytest

from codegen.capture.probes import Setup
from codegen.capture.server import ROOT, model_file, our_command, start
from generated import options
from handlers.speculation import speculative_types


def refused(*arguments: str) -> str:
    """What the server says before it ends with status 1."""
    folder = model_file("made:llama").parent
    command = [*our_command(), "-m", "llama.gguf", "--port", "0", "--log-disable", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr


def test_another_vocabulary_is_refused_in_one_line() -> None:
    model_file("made:gemma")
    assert refused("--spec-type", "draft-simple", "-md", "gemma.gguf") == (
        "error: the draft model's vocabulary isn't compatible:"
        " its type is spm and the model's bpe\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--spec-type", "draft-mtp"], "--spec-type draft-mtp isn't built yet"),
        (["--spec-type", "ngram-mod,draft-eagle3"], "--spec-type draft-eagle3 isn't built yet"),
        (["-md", "none.gguf"], "none.gguf: there is no such draft model"),
        (
            ["--spec-type", "ngram-cache", "-lcs", "none"],
            "couldn't read the lookup cache none: No such file or directory",
        ),
        (
            ["--spec-type", "draft-simple", "-md", "empty.gguf"],
            "empty.gguf is empty: download it again",
        ),
    ],
)
def test_what_cant_be_done_is_refused_in_one_line(arguments: list[str], says: str) -> None:
    (model_file("made:llama").parent / "empty.gguf").touch()
    assert refused(*arguments) == f"error: {says}\n"


def test_a_draft_model_without_a_use_is_said_once() -> None:
    model_file("made:llama")
    server = start(our_command(), Setup("unused", "made:llama", ("-md", "llama.gguf")))
    try:
        server.wait_ready()
        said = server.log.read_text()
    finally:
        server.stop()
    assert said.count("the draft model isn't used without --spec-type draft-simple") == 1


@pytest.mark.parametrize(
    ("arguments", "types"),
    [
        ((), ("none",)),
        (("--spec-type", "ngram-mod,ngram-simple"), ("none", "ngram-mod", "ngram-simple")),
        (("--spec-type", "ngram-mod,none,bogus"), ("none", "none")),
        (
            ("--spec-type", "ngram-mod", "--spec-type", "none"),
            ("none", "ngram-mod", "none"),
        ),
        (("--spec-default", "--spec-type", "ngram-map-k"), ("none", "ngram-map-k", "ngram-mod")),
    ],
)
def test_kinds_add_up_unless_one_is_none(
    arguments: tuple[str, ...], types: tuple[str, ...]
) -> None:
    assert speculative_types(options.parse(arguments, {}, lambda: ())) == types
