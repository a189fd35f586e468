"""Sets logging up as the command line asks: level, file, prefix and timestamps."""

import logging
import sys

from generated.options import Settings

_LEVELS = {0: logging.CRITICAL, 1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO}


def set_up_logging(settings: Settings) -> None:
    """Log to standard error, and to `--log-file` too if it is given."""
    parts = ["%(asctime)s"] if settings.log_timestamps else []
    parts += ["%(levelname).1s"] if settings.log_prefix else []
    formatter = logging.Formatter(" ".join([*parts, "%(message)s"]), datefmt="%H:%M:%S")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if settings.log_file:
        handlers.append(logging.FileHandler(settings.log_file, encoding="utf-8"))
    root = logging.getLogger()
    for handler in handlers:
        handler.setFormatter(formatter)
    root.handlers = [] if settings.log_disable else handlers
    if settings.log_disable:
        root.addHandler(logging.NullHandler())
    root.setLevel(_LEVELS.get(settings.verbosity, logging.DEBUG))
    for noisy in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
