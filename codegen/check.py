"""Says whether `generated/` is what the spec makes: stale, missing and orphaned files, a diff."""

import difflib
from collections.abc import Mapping
from pathlib import Path

MEND = "run `python -m codegen gen` (or `make gen`)"
_DIFF_LINES = 40


def differences(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """One text for each file under `root` that isn't as rendered."""
    found: list[str] = []
    for name, text in outputs.items():
        path = root / name
        if not path.exists():
            found.append(f"missing: generated/{name}")
        elif (present := path.read_bytes()) != text.encode():
            found.append(f"stale: generated/{name}\n{_diff(name, present, text)}")
    found += [f"orphaned: generated/{name}: no spec makes it" for name in orphans(root, outputs)]
    return found


def orphans(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """Files under `root` that the spec doesn't make, by their path there."""
    present = (p.relative_to(root) for p in sorted(root.rglob("*")) if p.is_file())
    return [str(p) for p in present if "__pycache__" not in p.parts and str(p) not in outputs]


def write(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """Bring `root` up to date; returns what was written or removed."""
    changed: list[str] = []
    for name, text in outputs.items():
        path = root / name
        if not path.exists() or path.read_bytes() != text.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(f"wrote generated/{name}")
    for name in orphans(root, outputs):
        (root / name).unlink()
        changed.append(f"removed generated/{name}")
    return changed


def _diff(name: str, present: bytes, text: str) -> str:
    lines = list(
        difflib.unified_diff(
            present.decode("utf-8", "replace").splitlines(),
            text.splitlines(),
            f"generated/{name} (on disk)",
            f"generated/{name} (from spec)",
            lineterm="",
        )
    )
    more = len(lines) - _DIFF_LINES
    return "\n".join(lines[:_DIFF_LINES] + ([f"… and {more} lines more"] if more > 0 else []))
