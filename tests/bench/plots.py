"""Draws the parts' figures as SVG, and gathers them on one page."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_COLOURS = ("#1f6feb", "#d29922", "#57ab5a", "#8957e5", "#e5534b")
_WIDTH, _HEIGHT = 720, 220
_BAR, _GAP = 26, 30


def write_page(folder: Path) -> Path:
    """Draw every part in `folder` that was measured; returns the page."""
    parts = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    parts = [part for part in parts if isinstance(part, dict) and "figures" in part]
    for part in parts:
        part["svg"] = draw(part)
        (folder / f"{part['part']}.svg").write_text(part["svg"])
        for figure in part["figures"]:
            figure["median"] = statistics.median(figure["values"])
    page = folder / "index.html"
    page.write_text(_TEMPLATES.get_template("page.html.j2").render(parts=parts))
    return page


def draw(part: dict[str, Any]) -> str:
    """One part as SVG: a course if it has one, else bars with their spread."""
    if part["curve"]:
        return _TEMPLATES.get_template("curve.svg.j2").render(**_curve(part))
    return _TEMPLATES.get_template("bars.svg.j2").render(**_bars(part))


def _bars(part: dict[str, Any]) -> dict[str, Any]:
    """Places of the bars, side by side for contestants in the same situation."""
    who = list(dict.fromkeys(figure["who"] for figure in part["figures"]))
    top = _round_up(max((max(f["values"]) for f in part["figures"]), default=1))
    bars, labels, x = [], [], 60.0
    for where in dict.fromkeys(figure["where"] for figure in part["figures"]):
        start = x
        for figure in part["figures"]:
            if figure["where"] == where:
                low, mid, high = (
                    _HEIGHT * (1 - of(figure["values"]) / top)
                    for of in (min, statistics.median, max)
                )
                bars.append(
                    {
                        "x": x,
                        "y": mid,
                        "low": low,
                        "high": high,
                        "height": _HEIGHT - mid,
                        "text": f"{statistics.median(figure['values']):.3g}",
                        "colour": _COLOURS[who.index(figure["who"]) % len(_COLOURS)],
                    }
                )
                x += _BAR
        labels.append({"x": (start + x) / 2, "text": where})
        x += max(_GAP, 6.5 * len(where) - (x - start))
    return {
        "part": part,
        "bars": bars,
        "labels": labels,
        "ticks": _ticks(top),
        "legend": [{"text": w, "colour": _COLOURS[n % len(_COLOURS)]} for n, w in enumerate(who)],
        "width": max(_WIDTH, x + 20),
        "height": _HEIGHT,
        "bar": _BAR,
    }


def _curve(part: dict[str, Any]) -> dict[str, Any]:
    points = part["curve"]
    right, top = max(x for x, _ in points), _round_up(max(y for _, y in points))
    placed = [(60 + (_WIDTH - 80) * x / right, _HEIGHT * (1 - y / top)) for x, y in points]
    return {
        "part": part,
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in placed),
        "ticks": _ticks(top),
        "right": f"{right:g}",
        "width": _WIDTH,
        "height": _HEIGHT,
    }


def _round_up(value: float) -> float:
    """The next number with one digit, or a half of one."""
    if value <= 0:
        return 1.0
    step = 10 ** math.floor(math.log10(value)) / 2
    return math.ceil(value / step) * step


def _ticks(top: float) -> list[dict[str, Any]]:
    return [{"y": _HEIGHT * (1 - n / 4), "text": f"{top * n / 4:.3g}"} for n in range(5)]
