"""Each function's text has a fingerprint: what a compiler sees counts, comments and logs don't."""

import json
import shutil
from pathlib import Path

import pytest

from codegen.diff import main as diff
from codegen.extract import main as extract

DATA = Path(__file__).parent / "data" / "extract"
NO_CHANGE = (
    "Routes: no change\n\nRequest fields: no change\n\nKeys read from bodies: no change\n\n"
    "Keys written into replies: no change\n\nOptions: no change\n\nKinds of error: no change\n\n"
    "Error texts: no change\n\nMetrics: no change\n\nFunctions, by file: "
)
CHAT = "src/llama-chat.cpp"
SCHEMA = "tools/server/server-schema.cpp"


def changed(folder: Path, path: str, old: str, new: str) -> str:
    """An extract of the invented tree with one text replaced."""
    tree = Path(shutil.copytree(DATA / "tree", folder / "tree"))
    text = (tree / path).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tree / path).write_text(text.replace(old, new), encoding="utf-8")
    assert extract([str(tree), "--out", str(folder / "new")]) == 0
    return str(folder / "new")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// A comment doesn't count, nor does a line of the log.", "/* Nothing. */"),
        ('    LOG_INF("pouring %s\\n", c.name());\n', ""),
        (' + " of tea";', '+\n      " of tea" ; // hot'),
    ],
)
def test_comments_logs_and_layout_do_not_count(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff([str(DATA / "expected"), changed(tmp_path, CHAT, old, new)]) == 0
    assert capsys.readouterr().out == f"llama.cpp 12 → unknown\n\n{NO_CHANGE}no change\n"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('" of tea"', '" of mate"', "pour"),
        ("#ifdef WITH_SUGAR", "#ifndef WITH_SUGAR", "(declarations)"),
        ("lumps = 2", "lumps = 3", "(declarations)"),
        ("const cup & c", "const mug & c", "(declarations)"),
    ],
)
def test_everything_else_does(
    old: str, new: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff([str(DATA / "expected"), changed(tmp_path, CHAT, old, new)]) == 1
    line = f"1 changed\n  changed {CHAT}: {name}\n"
    assert capsys.readouterr().out == f"llama.cpp 12 → unknown\n\n{NO_CHANGE}{line}"


def test_a_field_read_otherwise_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = changed(tmp_path, SCHEMA, "spoons.empty()", 'spoons.missing("cup")')
    assert diff([str(DATA / "expected"), new]) == 1
    assert (
        "Request fields: 2 changed\n"
        '  changed spoons: handler_uses -empty() +missing() +"cup"\n'
        "  changed spoons: handler_text\n"
    ) in capsys.readouterr().out


def test_what_can_be_read_is_written_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Path(shutil.copytree(DATA / "tree", tmp_path / "tree"))
    (tree / SCHEMA).unlink()
    out = tmp_path / "out"
    assert extract([str(tree), "--out", str(out), "--partial"]) == 1
    problem = f"{SCHEMA}: can't be read (No such file or directory)"
    message = f"{problem}\n1 problem; not written: fields.json\n"
    assert capsys.readouterr().err == message
    assert not (out / "fields.json").exists()
    assert json.loads((out / "build.json").read_text())["unread"] == {"fields.json": [problem]}
    assert diff([str(DATA / "expected"), str(out)]) == 1
    assert (
        f"Request fields: 1 not compared\n  not compared the new fields.json: {problem}\n"
    ) in capsys.readouterr().out
