"""Dovetail's loggers.

Python's `logging` takes longer to import than a small network takes to load. It is imported with
the first line that somebody may see: a warning, or any line once the program itself has imported
it. Before that nobody can have asked for less than warnings.
"""

from __future__ import annotations

import sys


class Log:
    """A logger that is looked up when it has something to say.

    Args:
        name: That of the `logging.Logger`.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, *arguments: object) -> None:
        """Log what developers look for."""
        if "logging" in sys.modules:
            self._write("DEBUG", message, arguments)

    def info(self, message: str, *arguments: object) -> None:
        """Log what was decided."""
        if "logging" in sys.modules:
            self._write("INFO", message, arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """Log what somebody should look at; shown even where nobody configured logging."""
        self._write("WARNING", message, arguments)

    def error(self, message: str, *arguments: object) -> None:
        """Log a failure that cannot be raised where it happens."""
        self._write("ERROR", message, arguments)

    def exception(self, message: str, *arguments: object) -> None:
        """Log the exception that is being handled, with its traceback."""
        self._write("ERROR", message, arguments, traceback=True)

    def _write(self, level: str, message: str, arguments: tuple[object, ...], *, traceback: bool = False) -> None:
        import logging

        # The record names the line that called `debug` and so on: two frames lie between.
        write = logging.getLogger(self._name).log
        write(getattr(logging, level), message, *arguments, exc_info=traceback, stacklevel=3)
