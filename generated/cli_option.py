"""One option of the command line, as the generated table holds it."""
# Copied by `python -m codegen gen` from codegen/runtime/cli_option.py; edit that.

from dataclasses import dataclass

from .cli_values import Reader


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option: its spellings, how its value is read, and the setting it feeds.

    `read` is None for options without a value, which set `on`, or `off` by a negative spelling.
    """

    section: str
    spellings: tuple[str, ...]
    negative: tuple[str, ...] = ()
    env: str | None = None
    value: tuple[str, ...] = ()
    action: str | None = None
    read: Reader | None = None
    on: object = True
    off: object = False
    setting: str | None = None
    template_kwarg: str | None = None
    escapes: bool = False
    default: object = None
    harmless: tuple[object, ...] = ()
    shown: str | None = None
    description: str
    status: str = "supported"
    reason: str = ""

    @property
    def negative_env(self) -> str | None:
        """The variable whose mere presence switches the option off."""
        if self.env is None or not self.negative:
            return None
        return self.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")

    @property
    def config_keys(self) -> tuple[str, ...]:
        """Its names in config files: spellings without dashes, and the variables."""
        names = (n.lstrip("-") for n in (*self.spellings, *self.negative))
        return (*filter(None, (self.env, self.negative_env)), *names)

    @property
    def key(self) -> str:
        """What its value is kept under while reading."""
        return self.setting or self.spellings[0]
