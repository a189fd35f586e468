"""Another build is read into a copy of a spec: facts, report, what is undecided, other answers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from codegen.repin import compare_answers, keep_printed, main
from tests.codegen_specs import change, small_spec
from tests.test_extract_diff import DATA, EDITS

Json = dict[str, Any]
SCHEMA = "tools/server/server-schema.cpp"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The invented spec with the facts of the invented tree."""
    folder = small_spec(tmp_path)
    shutil.copytree(DATA / "expected", folder / "upstream", dirs_exist_ok=True)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The invented tree with every edit made."""
    tree = Path(shutil.copytree(DATA / "tree", tmp_path / "tree"))
    for path, before, after in EDITS:
        file = tree / path
        file.write_text(file.read_text("utf-8").replace(before, after), encoding="utf-8")
    return tree


def test_facts_report_and_summary(
    spec: Path, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out" / "report.md"
    assert main([str(tree), "--spec", str(spec), "--report", str(report)]) == 0
    text = report.read_text(encoding="utf-8")
    changes, _, undecided = text.partition("\n## Undecided\n\n")
    assert changes == (DATA / "diff.md").read_text(encoding="utf-8")
    assert (
        "- `in spec/routes.json: route 'GET /steep' of the pinned build has no decision:"
        " add its status`\n"
    ) in undecided
    routes = json.loads((spec / "upstream/routes.json").read_text(encoding="utf-8"))["routes"]
    assert [r["path"] for r in routes].count("/steep") == 1
    assert capsys.readouterr().out == (
        "llama.cpp 12 → unknown\n"
        "  Routes: 1 added, 1 removed, 2 changed\n"
        "  Request fields: 4 changed, 1 moved\n"
        "  Keys read from bodies: 1 added, 1 removed, 4 moved\n"
        "  Keys written into replies: 1 added, 2 moved\n"
        "  Options: 1 added, 1 removed, 3 changed\n"
        "  Kinds of error: 1 changed\n"
        "  Error texts: 1 added, 1 removed, 2 moved\n"
        "  Metrics: 1 added, 1 removed\n"
        "  Functions, by file: 1 added, 1 removed, 5 changed\n"
        f"  Undecided: {len(undecided.splitlines())}\n"
        f"The report: {report}\n"
    )


def test_a_tree_that_cannot_be_read_leaves_the_facts(
    spec: Path, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / SCHEMA).unlink()
    before = {f.name: f.read_bytes() for f in (spec / "upstream").iterdir()}
    report = tmp_path / "report.md"
    assert main([str(tree), "--spec", str(spec), "--report", str(report)]) == 1
    assert {f.name: f.read_bytes() for f in (spec / "upstream").iterdir()} == before
    problem = f"{SCHEMA}: can't be read (No such file or directory)"
    text = report.read_text(encoding="utf-8")
    line = f"1 not compared\n\n- not compared `the new fields.json`: `{problem}`\n"
    assert f"## Request fields\n\n{line}" in text
    assert "- added `GET /steep`: `after GET /health`" in text
    assert capsys.readouterr().err == (
        f"{problem}\n1 problem; not written: fields.json\n"
        f"{spec / 'upstream'} stays as it was: not everything could be read\n"
    )


def test_no_facts_to_compare_with(
    spec: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec / "upstream/routes.json").unlink()
    assert main([str(tree), "--spec", str(spec)]) == 1
    path = spec / "upstream/routes.json"
    assert capsys.readouterr().err == f"{path} can't be read: No such file or directory\n"


def test_what_only_help_tells_is_kept_while_the_source_says_the_same() -> None:
    def option(
        name: str, hint: str | None, printed: str | None, expression: str
    ) -> dict[str, object]:
        default = {"printed": printed, "expression": expression, "value": None}
        return {"name": name, "hints": [hint], "default": default}

    old = {"options": [option("--a", "N", "7", "f()"), option("--b", "N", "8", "f()")]}
    new = {"options": [option("--a", None, None, "f()"), option("--b", "M", None, "g()")]}
    keep_printed(old, new)
    assert new == {"options": [option("--a", "N", "7", "f()"), option("--b", "M", None, "g()")]}


def test_answers_are_compared_one_by_one(tmp_path: Path) -> None:
    old = small_spec(tmp_path) / "captures"
    new = Path(shutil.copytree(old, tmp_path / "new"))
    file = new / "completion.json"
    change(file, "captures", 0, "answer", "body", "content", to="b")
    change(file, "captures", 0, "covers", to=["route:POST /completion"])
    change(file, "captures", 2, "covers", to=["route:GET /metrics", "field:stop"])
    change(file, "captures", 3, "body", to={"content": "b"})
    change(file, "captures", 4, "name", to="octets")
    found = compare_answers(old, new)
    assert found.recorded == 5
    assert found.changed == {
        "completion/plain": [".body.content: 'a' → 'b'"],
        "completion/count": ["another request"],
    }
    assert (found.added, found.removed) == (["completion/octets"], ["completion/bytes"])
