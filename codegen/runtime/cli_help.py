"""What the command line prints: --help, --version and the completion script."""

import platform
import re
import textwrap
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from .cli_option import Option

PROGRAM = "mlx-llama-server"
_WIDTH, _INDENT = 96, 34
_GAP = " " * _INDENT
_SECTIONS = {
    "common": "common params",
    "sampling": "sampling params",
    "speculative": "speculative params",
    "server": "server params",
    "own": f"params of {PROGRAM} only",
}


def version_text(build: int, commit: str) -> str:
    """What --version prints, in the shape of upstream's: the version and build, and the makers."""
    made_with = f"MLX {_installed('mlx')} and Python {platform.python_version()}"
    return (
        f"version: {_installed(PROGRAM)} (build {build}, commit {commit})\n"
        f"built with {made_with} for {platform.system()} {platform.machine()}\n"
    )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def help_text(options: Sequence[Option]) -> str:
    """The whole --help, by section."""
    parts = []
    for section, title in _SECTIONS.items():
        entries = [option_help(o) for o in options if o.section == section]
        if entries:
            parts.append(f"----- {title} -----\n\n{''.join(entries)}")
    return "\n\n".join(parts)


def option_help(option: Option) -> str:
    """One option's lines of --help."""
    first, *others = *option.spellings, *option.negative
    names = f"{first},".ljust(7) + (" " if len(first) > 5 else "") + ", ".join(others)
    head = " ".join((names if others else first, *option.value))
    notes = []
    if (default := _shown_default(option)) is not None:
        notes.append(f"default: {default}")
    if option.env:
        notes.append(f"env: {option.env}")
    text = option.description + (f" ({'; '.join(notes)})" if notes else "")
    if option.status == "inert":
        text += f" [no effect: {option.reason}]"
    elif option.status == "deferred":
        text += f" [not supported yet: {option.reason}]"
    elif option.status == "not_applicable":
        text += f" [not supported: {option.reason}]"
    lines = textwrap.wrap(text, _WIDTH - _INDENT, break_on_hyphens=False, break_long_words=False)
    if len(head) > _INDENT - 2:
        return "".join(f"{row}\n" for row in (*_at_commas(head), *(_GAP + row for row in lines)))
    starts = [head.ljust(_INDENT), *[_GAP] * (len(lines) - 1)]
    return "".join(f"{start}{row}\n" for start, row in zip(starts, lines, strict=True))


def _at_commas(text: str) -> list[str]:
    """The text in lines that break after commas."""
    rows = [""]
    for part in re.findall("[^,]*,?", text):
        if len(rows[-1] + part) > _WIDTH:
            rows.append("  ")
        rows[-1] += part
    return rows


def _shown_default(option: Option) -> str | None:
    value = option.default
    if option.shown is not None:
        return option.shown
    if value is None or (option.read is None and not option.negative):
        return None
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, tuple):
        return ";".join(value) or None
    return str(value) if value not in ("", {}) else None


def completion_script(options: Sequence[Option]) -> str:
    """A bash script that completes spellings, and file names after an option that takes one."""
    words = " ".join(s for o in options for s in (*o.spellings, *o.negative))
    with_file = [o for o in options if {"FNAME", "FILE", "PATH"} & {*o.value}]
    files = "|".join(s for o in with_file for s in o.spellings)
    name = "_" + PROGRAM.replace("-", "_")
    return (
        f"{name}() {{\n"
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        '    case "$before" in\n'
        f"        {files})\n"
        '            COMPREPLY=($(compgen -f -- "$word")) ;;\n'
        "        *)\n"
        f'            COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;\n'
        "    esac\n"
        "}\n"
        f"complete -o filenames -F {name} {PROGRAM}\n"
    )
