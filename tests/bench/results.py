"""What a part of the bench measured: printed with its goals, kept as JSON, and drawn."""

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from os import cpu_count

from codegen.capture.server import ROOT
from tests.bench.plots import write_page

OURS = "mlx-llama-server"
FOLDER = ROOT / ".cache" / "bench"


@dataclass(frozen=True)
class Figure:
    """What one contestant reached in one situation: a value for each round."""

    where: str
    who: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True)
class Goal:
    """A bound that a measured value should keep."""

    what: str
    measured: float
    limit: float
    unit: str = "×"
    at_least: bool = False

    @property
    def met(self) -> bool:
        reached = self.measured >= self.limit
        return reached if self.at_least else self.measured <= self.limit

    def __str__(self) -> str:
        bound = "at least" if self.at_least else "at most"
        verdict = "met" if self.met else "NOT met"
        return f"{self.measured:9.2f} {self.unit:8} {bound} {self.limit:g} {self.unit}: {verdict}"


@dataclass(frozen=True)
class Report:
    """All of one part."""

    part: str
    title: str
    unit: str
    """Of the figures."""
    figures: tuple[Figure, ...]
    goals: tuple[Goal, ...] = ()
    note: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    """Points of a course over time, with what its axes count."""
    curve_axes: tuple[str, str] = ("", "")

    def show(self) -> None:
        """Print it, write `.cache/bench/PART.json` and draw all parts' latest on one page."""
        print(self.text(), flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "machine": _machine()}
        data["goals"] = [{**asdict(goal), "met": goal.met} for goal in self.goals]
        path = FOLDER / f"{self.part}.json"
        path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        print(f"plots: {write_page(FOLDER)}")

    def text(self) -> str:
        """Tables of the figures and of the goals."""
        lines = [self.title]
        if self.figures:
            wide = max(len(f.where) for f in self.figures)
            wide_who = max(len(f.who) for f in self.figures)
            head = f"median {self.unit}"
            lines.append(f"{'':{wide}}  {'':{wide_who}}  {head:>18}   min – max           ours is")
            for figure in self.figures:
                spread = f"{_short(min(figure.values))} – {_short(max(figure.values))}"
                line = f"{figure.where:{wide}}  {figure.who:{wide_who}}  "
                line += f"{_short(figure.median):>18}   {spread:18}  {self._ratio(figure)}"
                lines.append(line.rstrip())
        lines += [f"{goal.what:60} {goal}" for goal in self.goals]
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def _ratio(self, figure: Figure) -> str:
        ours = [f for f in self.figures if f.where == figure.where and f.who == OURS]
        if figure.who == OURS or not ours or not figure.median:
            return ""
        return f"{ours[0].median / figure.median:6.2f} ×"


def figures(measured: dict[tuple[str, str], list[float]]) -> tuple[Figure, ...]:
    """Figures from values that were gathered by situation and contestant."""
    return tuple(Figure(where, who, tuple(values)) for (where, who), values in measured.items())


def median_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios round by round, in which what slows a whole round cancels."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _machine() -> dict[str, object]:
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": cpu_count(),
        "mlx": version("mlx"),
        "mlx-lm": version("mlx-lm"),
    }
