"""The config files that llama.cpp's programs share: where they are, and their INI syntax."""

import re
from collections.abc import Mapping
from pathlib import Path

SYSTEM_FILE = Path("/etc/llama.cpp/config.ini")

_END = r"[ \t]*(?:[;#].*)?"
_HEADER = re.compile(rf"\[[ \t]*([^\]]+)\]{_END}")
_ENTRY = re.compile(rf"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*?){_END}")
_NOTHING = re.compile(_END)


class ConfigError(Exception):
    """A config file that can't be used, with upstream's text."""


def config_files(environ: Mapping[str, str]) -> list[Path]:
    """The files that exist: the system's, then the user's, which wins."""
    files = [SYSTEM_FILE]
    if folder := environ.get("XDG_CONFIG_HOME"):
        files.append(Path(folder) / "llama.cpp/config.ini")
    elif home := environ.get("HOME"):
        files.append(Path(home) / ".config/llama.cpp/config.ini")
    return [file for file in files if file.exists()]


def read_config(path: Path) -> dict[str, dict[str, str]]:
    """Keys and values by section; those before any header are in `default`.

    A header that comes again empties its section, as upstream's does. Raises ConfigError.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        raise ConfigError(f"failed to open server preset file: {path}") from None
    section: dict[str, str] = {}
    sections = {"default": section}
    for line in re.split("\r\n|\n|\r", text):
        if header := _HEADER.fullmatch(line):
            section = sections[header[1]] = {}
        elif entry := _ENTRY.fullmatch(line):
            section[entry[1]] = entry[2]
        elif not _NOTHING.fullmatch(line):
            raise ConfigError(f"failed to parse server config file: {path}")
    return sections
