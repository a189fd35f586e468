"""`generated/` is what the spec makes: any difference turns check red, and gen mends it."""

import shutil
from pathlib import Path

import pytest

from tests.codegen_specs import ROOT, change, real_spec, run, small_spec

MEND = "generated/ doesn't match spec/: run `python -m codegen gen` (or `make gen`)"


def flip_a_byte(generated: Path) -> None:
    path = generated / "errors.py"
    path.write_bytes(path.read_bytes().replace(b"code=501", b"code=502", 1))


def add_a_file(generated: Path) -> None:
    (generated / "requests/weather.py").write_text("")


def remove_a_file(generated: Path) -> None:
    (generated / "models/replies.py").unlink()


def edit_a_limit(generated: Path) -> None:
    completion = generated.parent / "spec/fields/completion.json"
    bounds = ("properties", "n_predict", "x-llama", "limits", "reject")
    change(completion, *bounds, 0, to=0)
    facts = generated.parent / "spec/upstream/fields.json"
    change(facts, "fields", 2, "limits", "min_value", to=0)


def edit_by_line_ends(generated: Path) -> None:
    path = generated / "build.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    ("damage", "first", "mended"),
    [
        (flip_a_byte, "stale: generated/errors.py", "wrote generated/errors.py"),
        (
            add_a_file,
            "orphaned: generated/requests/weather.py: no spec makes it",
            "removed generated/requests/weather.py",
        ),
        (
            remove_a_file,
            "missing: generated/models/replies.py",
            "wrote generated/models/replies.py",
        ),
        (
            edit_a_limit,
            "stale: generated/requests/completion.py",
            "wrote generated/requests/completion.py",
        ),
        (edit_by_line_ends, "stale: generated/build.py", "wrote generated/build.py"),
    ],
)
def test_a_difference_is_named_and_mended(
    damage: object,
    first: str,
    mended: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = small_spec(tmp_path)
    assert run("gen", spec) == 0
    assert callable(damage)
    damage(tmp_path / "generated")
    capsys.readouterr()

    assert run("check", spec) == 1
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0], err.splitlines()[-1]) == ("", first, MEND)

    assert run("gen", spec) == 0
    assert capsys.readouterr().out == mended + "\n"
    assert run("check", spec) == 0
    assert capsys.readouterr() == ("spec/ is valid and generated/ is fresh\n", "")


def test_a_stale_file_comes_with_a_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = small_spec(tmp_path)
    assert run("gen", spec) == 0
    edit_a_limit(tmp_path / "generated")
    capsys.readouterr()
    assert run("check", spec) == 1
    diff = capsys.readouterr().err.splitlines()
    assert [line for line in diff if line.startswith(("+", "-"))] == [
        "--- generated/requests/completion.py (on disk)",
        "+++ generated/requests/completion.py (from spec)",
        "-            reject=(-1, wire.INT32_MAX),",
        "+            reject=(0, wire.INT32_MAX),",
    ]


def test_the_real_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All at once in a copy of the real spec and its generated files, then all mended."""
    spec = real_spec(tmp_path)
    generated = Path(shutil.copytree(ROOT / "generated", tmp_path / "generated"))
    for path in ("errors.py", "requests/completion.py"):
        (generated / path).write_text((generated / path).read_text() + "#\n")
    add_a_file(generated)
    remove_a_file(generated)
    limits = ("properties", "n_predict", "x-llama", "limits", "reject")
    change(spec / "fields/completion.json", *limits, 0, to=-2)

    assert run("check", spec) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "in spec/fields/completion.json: n_predict: min is -2, upstream's -1"
    assert [line for line in lines if line.startswith(("stale", "missing", "orphaned"))] == [
        "stale: generated/errors.py",
        "stale: generated/requests/completion.py",
        "missing: generated/models/replies.py",
        "orphaned: generated/requests/weather.py: no spec makes it",
    ]
    assert lines[-1] == MEND

    change(spec / "fields/completion.json", *limits, 0, to=-1)
    assert run("gen", spec) == 0
    assert run("check", spec) == 0
    for path in sorted(generated.rglob("*.*")):
        if "__pycache__" not in path.parts:
            assert (
                path.read_text() == (ROOT / "generated" / path.relative_to(generated)).read_text()
            )
