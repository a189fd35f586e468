"""What a small invented spec becomes: whole files, and a package that works.

`python -m tests.test_codegen_golden` renews the golden files; read the diff before committing it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from codegen.load import load
from codegen.plan import outputs
from tests.codegen_specs import ROOT, SMALL, run, small_spec

RUNTIME = {path.name for path in (ROOT / "codegen/runtime").glob("*.py")}
GOLDEN = sorted(str(p.relative_to(SMALL / "golden")) for p in (SMALL / "golden").rglob("*.*"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outputs(load(small_spec(tmp_path_factory.mktemp("small"))))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_file_is_as_recorded(name: str, generated: dict[str, str]) -> None:
    assert generated[name] == (SMALL / "golden" / name).read_text()


def test_no_other_files_are_made(generated: dict[str, str]) -> None:
    assert sorted(generated) == sorted([*GOLDEN, *RUNTIME])


@pytest.mark.parametrize("name", sorted(RUNTIME))
def test_the_runtime_is_copied_with_a_note(name: str, generated: dict[str, str]) -> None:
    source = (ROOT / "codegen/runtime" / name).read_text()
    note = f"# Copied by `python -m codegen gen` from codegen/runtime/{name}; edit that.\n"
    assert generated[name].replace(note, "", 1) == source
    assert note in generated[name]


def test_generating_twice_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = small_spec(tmp_path)
    assert run("gen", spec) == 0
    wrote = capsys.readouterr().out.splitlines()
    assert sorted(wrote) == sorted(f"wrote generated/{name}" for name in [*GOLDEN, *RUNTIME])
    assert run("gen", spec) == 0
    assert capsys.readouterr().out == "generated/ is fresh\n"


def test_the_small_package_works(tmp_path: Path) -> None:
    """Requests through its routes and readers, in a process where `generated` is this package."""
    assert run("gen", small_spec(tmp_path)) == 0
    shutil.copy(SMALL / "use_small.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "use_small.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stderr, done.returncode) == ("", 0)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        made = outputs(load(small_spec(Path(folder))))
    shutil.rmtree(SMALL / "golden", ignore_errors=True)
    for name, text in made.items():
        if name not in RUNTIME:
            path = SMALL / "golden" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
