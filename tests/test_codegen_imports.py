"""Imports point one way: what each package may import, and that serving needs no codegen."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"codegen", "engine", "generated", "handlers", "tests"}
STANDARD = set(sys.stdlib_module_names)


def imports(folder: str) -> Iterator[tuple[str, str]]:
    """Every module that a file of the folder imports anywhere in it, by its first name."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "" if not node.level else folder]
            for name in names:
                yield str(path.relative_to(ROOT)), name.split(".")[0]


def test_generated_imports_its_web_framework_and_itself() -> None:
    allowed = STANDARD | {"fastapi", "generated", "orjson", "pydantic", "starlette"}
    assert [pair for pair in imports("generated") if pair[1] not in allowed] == []


@pytest.mark.parametrize(
    ("folder", "own"),
    [("engine", {"engine"}), ("handlers", {"engine", "generated", "handlers"})],
)
def test_a_package_imports_only_those_below_it(folder: str, own: set[str]) -> None:
    assert [pair for pair in imports(folder) if pair[1] in OURS - own] == []


def test_codegen_imports_nothing_that_serves() -> None:
    below = {"engine", "handlers"}
    assert [pair for pair in imports("codegen") if pair[1] in below] == []


def test_the_engine_knows_no_web_framework() -> None:
    web = {"fastapi", "orjson", "pydantic", "starlette", "uvicorn"}
    assert [pair for pair in imports("engine") if pair[1] in web] == []


def test_serving_loads_no_codegen() -> None:
    """Not by way of others either: the modules that the started program has."""
    text = "import sys, handlers.main; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    never = {"codegen", "datamodel_code_generator", "jsonschema", "tests"}
    assert never & set(done.stdout.split()) == set()
