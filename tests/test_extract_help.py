"""What llama-server --help prints is compared with the source, and differences are errors."""

import shutil
from pathlib import Path

import pytest

from codegen.extract import main

DATA = Path(__file__).parent / "data" / "extract"
TREE = str(DATA / "tree")
HELP = (DATA / "help.txt").read_text(encoding="utf-8")


def run(tmp_path: Path, help_text: str) -> int:
    file = tmp_path / "help.txt"
    file.write_text(help_text, encoding="utf-8")
    return main([TREE, "--help-text", str(file), "--out", str(tmp_path / "out")])


LOUD = [
    pytest.param(
        "--pair CUP SAUCER                       a cup and its saucer\n",
        "",
        "--help: not printed: --pair\n",
        id="option that isn't printed",
    ),
    pytest.param(
        "--pair CUP SAUCER ",
        "--pair CUP PLATE  ",
        "--help:6: --pair: value: 'CUP SAUCER' printed as 'CUP PLATE'\n",
        id="other name of the value",
    ),
    pytest.param(
        "(env: TEA_LEAF)",
        "(env: TEA_LEAVES)",
        "--help:18: --leaf-kind: environment variable: 'TEA_LEAF' printed as 'TEA_LEAVES'\n",
        id="other environment variable",
    ),
    pytest.param(
        "(default: -1, -1 = all)",
        "(default: 3, -1 = all)",
        "--help:4: --n-predict: default: '-1' printed as '3'\n",
        id="other default",
    ),
    pytest.param(
        "a cup and its saucer",
        "a cup (default: none)",
        "--help:6: --pair: default: None printed as 'none'\n",
        id="default that the source hasn't",
    ),
    pytest.param(
        "-np,   --parallel N ",
        "-np,   --pots N     ",
        "--help: not printed: -np, --parallel\n--help:27: not in the source: -np, --pots\n",
        id="other spelling",
    ),
    pytest.param(
        "--old-pot N                             this option is gone\n\n\n"
        "----- example-specific params -----\n\n",
        "\n\n----- example-specific params -----\n\n"
        "--old-pot N                             this option is gone\n",
        "--help:24: --old-pot: section: 'speculative' printed as 'server'\n",
        id="other section",
    ),
    pytest.param(
        "-h,    --help                           say what there is\n"
        "-n,    --n-predict N                    cups to pour (default: -1, -1 = all)\n"
        "                                        (env: TEA_N_PREDICT)\n",
        "-n,    --n-predict N                    cups to pour (default: -1, -1 = all)\n"
        "                                        (env: TEA_N_PREDICT)\n"
        "-h,    --help                           say what there is\n",
        "--help: the order isn't the source's: common\n",
        id="other order",
    ),
    pytest.param(
        "----- sampling params -----",
        "----- steaming params -----",
        "--help:9: unknown section: ----- steaming params -----\n",
        id="unknown section",
    ),
    pytest.param(
        "--pair CUP SAUCER ",
        "  pair CUP SAUCER ",
        "--help:6: line belongs to no option:   pair CUP SAUCER"
        "                       a cup and its saucer\n",
        id="line of no option",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), LOUD)
def test_a_difference_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    assert HELP.count(old) == 1
    assert run(tmp_path, HELP.replace(old, new)) == 1
    lines = capsys.readouterr().err.splitlines(keepends=True)
    assert "".join(lines[:-1]) == message
    assert not (tmp_path / "out").exists()


def test_the_help_may_come_from_the_program_itself(tmp_path: Path) -> None:
    program = tmp_path / "tea-server"
    program.write_text(f"#!/bin/sh\ncat '{DATA / 'help.txt'}'\n", encoding="utf-8")
    program.chmod(0o755)
    assert main([TREE, "--help-text", str(program), "--out", str(tmp_path / "out")]) == 0
    for file in ("options.json", "build.json"):
        expected = (DATA / "expected" / file).read_text(encoding="utf-8")
        assert (tmp_path / "out" / file).read_text(encoding="utf-8") == expected


def test_help_that_cannot_be_had_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nothing.txt"
    assert main([TREE, "--help-text", str(missing), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "nothing.txt can't be read: No such file or directory\n"


def test_a_tree_without_sources_lists_every_missing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = shutil.copytree(TREE, tmp_path / "tree")
    (tree / "common" / "arg.cpp").unlink()
    (tree / "tools" / "server" / "server.cpp").unlink()
    assert main([str(tree), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == (
        "common/arg.cpp: can't be read (No such file or directory)\n"
        "tools/server/server.cpp: can't be read (No such file or directory)\n"
        "2 problems; nothing was written\n"
    )
