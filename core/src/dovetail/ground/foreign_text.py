"""Show values and exceptions of foreign code in a message, whatever they do when printed."""

from __future__ import annotations

from typing import Any

from .host_exceptions import is_of_host

_LONGEST = 2000
"""Characters of a text that foreign code gave."""


def shown(value: Any) -> str:
    """Return a value for a message: short, on one line, without terminal control characters."""
    try:
        text = str(value) if isinstance(value, BaseException) else repr(value)
    except BaseException as failure:  # whatever a backend's own object does when printed, the report must survive
        if is_of_host(failure):
            raise
        text = "(its text cannot be printed)"
    text = printable(text)
    return text if len(text) <= 120 else f"{text[:117]}..."


def printable(text: str) -> str:
    """Return text with line breaks and control characters written as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return text of foreign code for an error or a report: on one line, and cut."""
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def described(error: BaseException) -> str:
    """Return type and text of an exception, whatever that does when it is printed."""
    try:
        text = str(error)
    except BaseException as failure:  # the report must survive it
        if is_of_host(failure):
            raise
        text = "(its text cannot be printed)"
    return f"{type(error).__name__}: {one_line(text)}" if text else type(error).__name__
