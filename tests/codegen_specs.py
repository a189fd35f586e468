"""Copies of an invented spec and of the real one, to change and to generate from."""

import json
import shutil
from pathlib import Path
from typing import Any

from codegen.__main__ import main

ROOT = Path(__file__).parent.parent
SMALL = Path(__file__).parent / "data/codegen/small"
GONE = object()
"""As a value: take the key out."""


def small_spec(folder: Path) -> Path:
    """A copy of the invented spec, with the real meta-schemas; `folder` is where it goes."""
    spec = folder / "spec"
    shutil.copytree(SMALL / "spec", spec)
    shutil.copytree(ROOT / "spec/schema", spec / "schema")
    return spec


def real_spec(folder: Path) -> Path:
    """A copy of the real spec."""
    return Path(shutil.copytree(ROOT / "spec", folder / "spec"))


def run(command: str, spec: Path) -> int:
    """The exit status of `python -m codegen` with a spec; `generated` goes next to it."""
    return main([command, "--spec", str(spec), "--out", str(spec.parent / "generated")])


def change(file: Path, *keys: str | int, to: Any) -> None:
    """Change one value of a JSON file, or take it out."""
    data = json.loads(file.read_text())
    inner = data
    for key in keys[:-1]:
        inner = inner[key]
    if to is GONE:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    file.write_text(json.dumps(data, indent=2))
