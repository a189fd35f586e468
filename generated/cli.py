"""Reads a command line as llama-server does: config files, then environment, then arguments."""
# Copied by `python -m codegen gen` from codegen/runtime/cli.py; edit that.

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cli_config import ConfigError, config_files, read_config
from .cli_help import completion_script, help_text, option_help
from .cli_option import Option
from .cli_values import TRUE_WORDS, InvalidValue, Reader, boolean, unescape


class CommandLineExit(Exception):
    """The process should print `out` and `err` and exit with `status`."""

    def __init__(self, status: int, out: str = "", err: str = "") -> None:
        super().__init__(err or out)
        self.status = status
        self.out = out
        self.err = err


@dataclass(slots=True)
class CommandLine:
    """What was read: a value for each setting given, and what to tell the user at start."""

    values: dict[str, Any] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    announcements: list[str] = field(default_factory=list)


def read(
    options: Sequence[Option],
    argv: Sequence[str],
    environ: Mapping[str, str],
    version_text: str,
    devices: Callable[[], Sequence[str]],
) -> CommandLine:
    """Read `argv`, without the program's name; raises CommandLineExit.

    Follows `common_params_parse` in upstream's common/arg.cpp: config files are read first, then
    the environment, then the arguments, where the last one wins; `--ctx_size` is `--ctx-size`,
    a value is the next argument, whatever it looks like, and `--option=value` isn't known.
    """
    return _Reading(options, environ, version_text, devices).read(argv)


@dataclass(slots=True)
class _Reading:
    """One pass over the environment and the arguments."""

    options: Sequence[Option]
    environ: Mapping[str, str]
    version_text: str
    devices: Callable[[], Sequence[str]]
    line: CommandLine = field(default_factory=CommandLine)
    used: dict[str, tuple[Option, str]] = field(default_factory=dict)
    action: str | None = None

    def read(self, argv: Sequence[str]) -> CommandLine:
        for path in config_files(self.environ):
            self.warn(f"using config file: {path}")
            self.read_config(path)
        for option in self.options:
            self.read_environment(option)
        self.read_arguments(argv)
        if self.action == "help":
            raise self.exit(0, out=help_text(self.options))
        if self.action == "completion_bash":
            raise self.exit(0, out=completion_script(self.options))
        self.refuse()
        self.announce_inert()
        self.finish()
        return self.line

    def read_config(self, path: Path) -> None:
        """Read a config file's `*` section, then its `default` one, each in order of spellings."""
        by_key = {name: option for option in self.options for name in option.config_keys}
        try:
            sections = read_config(path)
        except ConfigError as error:
            raise self.exit(1, err=f"{error}\n") from None
        for name in ("*", "default"):
            entries = {}
            for key, text in sorted(sections.get(name, {}).items()):
                if key == "version":
                    continue  # the file format's, upstream says
                if key in by_key:
                    entries[by_key[key].spellings[0]] = (key, text)
                else:
                    self.warn(f"ignoring option '{key}' from {path}: not supported by this program")
            for _, (key, text) in sorted(entries.items()):
                try:
                    self.read_entry(by_key[key], key, text, f"{key} in {path}")
                except InvalidValue as error:
                    raise self.exit(
                        1, err=f'error while handling option "{key}" in {path}: {error}\n'
                    ) from None

    def read_entry(self, option: Option, key: str, text: str, used: str) -> None:
        """One entry of a config file; a flag is set whatever its value, as upstream does."""
        if option.action is not None:
            self.act(option, used)
        elif option.read is None and option.negative:
            positive = f"--{key}" not in option.negative and f"-{key}" not in option.negative
            self.give(option, used, option.on if (text in TRUE_WORDS) == positive else option.off)
        elif option.read is None:
            self.give(option, used, option.on)
        elif len(option.value) > 1:
            raise InvalidValue("option with two values is not supported yet")
        else:
            self.give(option, used, self.value(option, option.read, text))

    def read_environment(self, option: Option) -> None:
        if option.env is None:
            return
        name, text = option.env, self.environ.get(option.env)
        if option.negative_env in self.environ:
            name, text = option.negative_env or "", "0"
        if text is None:
            return
        try:
            if option.read is not None and len(option.value) == 1:
                self.give(option, name, self.value(option, option.read, text))
            elif option.negative:
                self.give(option, name, option.on if boolean(text) else option.off)
            elif text in TRUE_WORDS:
                self.give(option, name, option.on)
        except InvalidValue as error:
            raise self.exit(
                1,
                err=f'error while handling environment variable "{option.env}": {error}\n\n\n',
            ) from None

    def read_arguments(self, argv: Sequence[str]) -> None:
        by_spelling = {
            s: (option, s in option.spellings)
            for option in self.options
            for s in (*option.spellings, *option.negative)
        }
        seen = set()
        rest = list(reversed(argv))
        while rest:
            argument = rest.pop()
            if argument.startswith("--"):
                argument = argument.replace("_", "-")
            if argument not in by_spelling:
                raise self.exit(1, err=f"error: invalid argument: {argument}\n")
            option, positive = by_spelling[argument]
            if argument in seen and argument != "--spec-type":
                self.warn(
                    f"DEPRECATED: argument '{argument}' specified multiple times, use "
                    "comma-separated values instead (only last value will be used)"
                )
            seen.add(argument)
            if option.env in self.environ or option.negative_env in self.environ:
                self.warn(
                    f"warn: {option.env} environment variable is set, but will be overwritten "
                    f"by command line argument {argument}"
                )
            try:
                self.read_argument(option, argument, positive, rest)
            except InvalidValue as error:
                raise self.exit(
                    1,
                    err=f'error while handling argument "{argument}": {error}\n\n'
                    f"usage:\n{option_help(option)}\n\nto show complete usage, run with -h\n",
                ) from None

    def read_argument(
        self, option: Option, argument: str, positive: bool, rest: list[str]
    ) -> None:
        if option.action is not None:
            self.act(option, argument)
        elif option.read is None:
            self.give(option, argument, option.on if positive else option.off)
        else:
            texts = []
            for _ in option.value:
                if not rest:
                    raise InvalidValue("expected value for argument")
                texts.append(rest.pop())
            self.give(option, argument, self.value(option, option.read, *texts))

    def act(self, option: Option, argument: str) -> None:
        """Print at once, as upstream does, or remember what to print after all arguments."""
        if option.action == "version":
            raise self.exit(0, err=self.version_text)
        if option.action == "list_devices":
            lines = "".join(f"  {device}\n" for device in self.devices() or ("(none)",))
            raise self.exit(0, out=f"Available devices:\n{lines}")
        if option.status != "supported":
            raise self.exit(1, err=_refusal(option, argument))
        if self.action != "help":
            self.action = option.action

    def value(self, option: Option, read: Reader, *texts: str) -> Any:
        return read(self.line.values.get(option.key), *texts, warn=self.warn)

    def give(self, option: Option, used: str, value: object) -> None:
        self.used[option.key] = (option, used)
        self.line.values[option.key] = value
        if option.template_kwarg is None:
            return
        kwargs = dict(self.line.values.get("default_template_kwargs", {}))
        if value == "default":
            kwargs.pop(option.template_kwarg, None)
        elif value is not None:
            kwargs[option.template_kwarg] = value
        self.line.values["default_template_kwargs"] = kwargs

    def refuse(self) -> None:
        lines = [
            _refusal(option, used)
            for option, used in self.used.values()
            if option.status in ("deferred", "not_applicable")
            and self.line.values[option.key] not in (option.default, *option.harmless)
        ]
        if lines:
            raise self.exit(1, err="".join(lines))

    def announce_inert(self) -> None:
        names = [
            used
            for option, used in self.used.values()
            if option.status == "inert"
            and self.line.values[option.key] not in (option.default, *option.harmless)
            and (used != option.env or used.startswith("LLAMA_"))
        ]
        if names:
            self.warn(f"without effect here (--help says why): {', '.join(names)}")

    def finish(self) -> None:
        """Read escapes, and keep only the values that feed settings."""
        values = self.line.values
        if values.get("escape", True):
            for option in self.options:
                if option.escapes and option.key in values:
                    values[option.key] = tuple(unescape(text) for text in values[option.key])
        known = {option.setting for option in self.options}
        self.line.values = {key: value for key, value in values.items() if key in known}
        self.line.given = frozenset(self.line.values)

    def warn(self, text: str) -> None:
        self.line.announcements.append(text)

    def exit(self, status: int, out: str = "", err: str = "") -> CommandLineExit:
        """The exit, after the warnings so far."""
        warnings = "".join(f"{line}\n" for line in self.line.announcements)
        return CommandLineExit(status, out, warnings + err)


def _refusal(option: Option, used: str) -> str:
    yet = " yet" if option.status == "deferred" else ""
    return f"error: {used} is not supported{yet}: {option.reason}\n"
