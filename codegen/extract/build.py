"""What is known of the build itself: its version, if the package that it came in says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_METADATA = ("PKG-INFO", "pyproject.toml")
_NAME = re.compile(r"^(?:Name: |name\s*=\s*\")([^\"\n]+)", re.MULTILINE)
_VERSION = re.compile(r"^(?:Version: |version\s*=\s*\")([^\"\n]+)", re.MULTILINE)


def extract_build(root: Path, documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """`build.json`: package, version, build number, and the counts of the other documents.

    The package's metadata is looked for beside the tree; without it the version is null.
    """
    package, version = _package(root)
    number = re.match(r"\d+", version) if version else None
    return {
        "package": package,
        "version": version,
        "build": int(number.group()) if number else None,
        "counts": {name: document.get("counts") for name, document in documents.items()},
    }


def _package(root: Path) -> tuple[str | None, str | None]:
    for name in _METADATA:
        try:
            text = (root.resolve().parent / name).read_text(encoding="utf-8")
        except OSError:
            continue
        package, version = _NAME.search(text), _VERSION.search(text)
        if version is not None:
            return package.group(1) if package else None, version.group(1)
    return None, None
