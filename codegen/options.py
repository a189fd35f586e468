"""The command line: `spec/options.json` as frozen dataclasses, and `generated/options.py`."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codegen.layout import literal
from codegen.model import Decision
from codegen.problems import Problems
from codegen.render import render

_INSTEAD = {
    "supported": "",
    "inert": "It is accepted, and named once at start.",
    "deferred": "The server doesn't start with it, except with its default.",
    "not_applicable": "The server doesn't start with it.",
}
_ANNOTATIONS = {
    "flag": "bool",
    "switch": "bool",
    "on_off": "bool",
    "on_off_auto": "bool | None",
    "int32": "int",
    "uint32": "int",
    "layers": "int",
    "float": "float",
    "string": "str",
    "path": "str",
    "folder": "str",
    "text_file": "str",
    "enum": "str",
    "strings": "tuple[str, ...]",
    "lines_file": "tuple[str, ...]",
    "samplers": "tuple[str, ...]",
    "sampler_chars": "tuple[str, ...]",
    "dry_breakers": "tuple[str, ...]",
    "logit_bias": "tuple[tuple[int, float], ...]",
    "json_object": "Mapping[str, Json]",
}
_WIDTH = 100
_NO_VALUE = ("action", "flag", "switch")
_READERS = {"path": "string", "float": "float32"}
_SAMPLER_TABLES = {"samplers": "samplers.BY_NAME", "sampler_chars": "samplers.BY_LETTER"}


@dataclass(frozen=True)
class Option:
    """One option; its attributes are the keys of `spec/schema/options.schema.json`."""

    section: str
    spellings: tuple[str, ...]
    type: str
    description: str
    status: str
    negative: tuple[str, ...] = ()
    env: str | None = None
    value: tuple[str, ...] = ()
    action: str | None = None
    choices: tuple[str, ...] = ()
    split: str | None = None
    sets: Any = None
    reject: tuple[int | None, ...] | None = None
    reject_values: tuple[int, ...] = ()
    clamp: tuple[float | None, ...] | None = None
    ignore_below: float | None = None
    must_be: str | None = None
    invalid: str | None = None
    template_kwarg: str | None = None
    escapes: bool = False
    setting: str | None = None
    default: Any = None
    harmless: tuple[Any, ...] = ()
    shown: str | None = None
    reason: str = ""

    @cached_property
    def decision(self) -> Decision:
        """Whether it is supported, and what a user gets in its place, in sentences."""
        reason = f"{self.reason[:1].upper()}{self.reason[1:]}." if self.reason else ""
        return Decision(self.status, reason, _INSTEAD[self.status])

    @cached_property
    def annotation(self) -> str:
        """The type of its setting."""
        if self.type == "flag" and self.sets is not None:
            return type(self.sets).__name__
        if self.type == "switch" and self.default is None:
            return "bool | None"
        return _ANNOTATIONS[self.type]

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the generated `Option(…)`, laid out."""
        lines = [
            _argument(name, getattr(self, name))
            for name in ("section", "spellings", "negative", "env", "value", "action")
            if getattr(self, name)
        ]
        if self.type not in _NO_VALUE:
            lines.append(f"read={self._reader}")
        if self.sets is not None:
            lines.append(_argument("on", self.sets))
        lines += [
            _argument(name, getattr(self, name))
            for name in ("setting", "template_kwarg", "escapes")
            if getattr(self, name)
        ]
        if self.default is not None:
            lines.append(_argument("default", self.default))
        if self.harmless:
            lines.append(_argument("harmless", self.harmless))
        if self.shown:
            lines.append(_argument("shown", self.shown))
        lines.append(_argument("description", self.description))
        if self.status != "supported":
            lines += [_argument("status", self.status), _argument("reason", self.reason)]
        return tuple(lines)

    @property
    def _reader(self) -> str:
        """The call that makes its reader, laid out."""
        name = f"values.{_READERS.get(self.type, self.type)}"
        if self.type in _SAMPLER_TABLES:
            return f"{name}({_SAMPLER_TABLES[self.type]})"
        given: list[tuple[str, Any]] = []
        if self.type == "enum":
            given += [("", choice) for choice in self.choices]
        elif self.choices:
            given.append(("choices", self.choices))
        for key in ("split", "reject", "reject_values", "clamp", "ignore_below", "must_be"):
            if getattr(self, key):
                given.append((key, getattr(self, key)))
        if self.ignore_below is not None:
            given.append(("default", self.default))
        if self.invalid is not None:
            given.append(("invalid", self.invalid))
        flat = f"{name}({', '.join(_keyword(k) + _expression(v) for k, v in given)})"
        if len(f"        read={flat},") <= _WIDTH:
            return flat
        rows = "".join(f"            {_argument(k, v, 12)},\n" for k, v in given)
        return f"{name}(\n{rows}        )"


@dataclass(frozen=True)
class Setting:
    """One attribute of the generated Settings, fed by one option or several."""

    name: str
    options: tuple[Option, ...]

    @property
    def annotation(self) -> str:
        return self._main.annotation

    @property
    def default_expression(self) -> str:
        if self.annotation.startswith("Mapping"):
            return "field(default_factory=dict)"
        return _layout(self._main.default, 4, len(f"{self.name}: {self.annotation} = "))

    @property
    def documentation(self) -> str:
        """What it is for, and the spellings that set it, as the lines of a docstring."""
        names = ", ".join(s for o in self.options for s in (*o.spellings, *o.negative))
        text = f"{self._main.description} ({names})"
        return "\n    ".join(textwrap.wrap(text, _WIDTH - 10, break_on_hyphens=False))

    @property
    def _main(self) -> Option:
        """The option that says most about it: one that has a value of its own, if any."""
        return next((o for o in self.options if o.sets is None), self.options[0])


def load_options(data: Any, problems: Problems) -> tuple[Option, ...]:
    """The options of `spec/options.json`, already checked against its meta-schema."""
    own = [{**entry, "section": "own"} for entry in data["own"]]
    options = tuple(_option(entry) for entry in (*data["options"], *own))
    with problems.at("spec/options.json"):
        _check_names(options, problems)
        for option in options:
            with problems.at(option.spellings[0]):
                _check_default(option, problems)
        for setting in settings(options):
            _check_setting(setting, problems)
    return options


def _option(entry: dict[str, Any]) -> Option:
    keys: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return Option(**keys)


def settings(options: Sequence[Option]) -> tuple[Setting, ...]:
    """The settings that options feed, in the order of the options."""
    names = dict.fromkeys(o.setting for o in options if o.setting)
    return tuple(Setting(n, tuple(o for o in options if o.setting == n)) for n in names)


def outputs(options: Sequence[Option]) -> Iterator[tuple[str, str]]:
    """The generated files and their paths."""
    context = {
        "options": options,
        "settings": settings(options),
        "names_samplers": any(o.type in _SAMPLER_TABLES for o in options),
    }
    yield "options.py", render("options.py.jinja", context)


def _check_names(options: Sequence[Option], problems: Problems) -> None:
    seen: dict[str, Option] = {}
    for option in options:
        names = (*option.spellings, *option.negative, *([option.env] if option.env else ()))
        for name in names:
            if name in seen:
                problems.add(f"{name} stands twice, also for {seen[name].spellings[0]}")
            seen[name] = option


def _check_default(option: Option, problems: Problems) -> None:
    words = option.default if isinstance(option.default, tuple) else (option.default,)
    outside = [w for w in words if option.choices and w not in option.choices]
    # An enum that isn't given may have a value that can't be given, which --help must explain.
    if outside and not option.shown:
        problems.add(f"the default {outside[0]!r} is none of the choices, and nothing is shown")


def _check_setting(setting: Setting, problems: Problems) -> None:
    first, *others = setting.options
    for other in others:
        with problems.at(other.spellings[0]):
            if other.annotation != first.annotation:
                problems.add(
                    f"feeds {setting.name} with {other.annotation}, but {first.spellings[0]} "
                    f"with {first.annotation}"
                )
            if other.default != first.default:
                problems.add(
                    f"says that {setting.name} is {other.default!r} by default, but "
                    f"{first.spellings[0]} says {first.default!r}"
                )


def _keyword(name: str) -> str:
    return f"{name}=" if name else ""


def _argument(name: str, value: Any, indent: int = 8) -> str:
    """`name=value`, over several lines if need be."""
    return _keyword(name) + _layout(value, indent, len(_keyword(name)))


def _layout(value: Any, indent: int, before: int) -> str:
    """A Python expression that starts `before` columns after the indent, within the line width."""
    flat = _expression(value)
    if indent + before + len(flat) < _WIDTH:
        return flat
    if isinstance(value, tuple):
        rows = [f"{_expression(item)}," for item in value]
    elif isinstance(value, str):
        rows = [""]
        for word in re.findall(r"\s*\S+\s*", value):
            if len(rows[-1] + word) > _WIDTH - indent - 8:
                rows.append("")
            rows[-1] += word
        rows = [_expression(row) for row in rows]
    else:
        return flat
    return "(\n" + "".join(f"{' ' * (indent + 4)}{row}\n" for row in rows) + " " * indent + ")"


def _expression(value: Any) -> str:
    """A Python expression; floats that float32 can't hold are rounded to it."""
    if isinstance(value, tuple):
        items = [_expression(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, float) and value != round(value * 64) / 64:
        return f"f32({value!r})"
    return literal(value)
