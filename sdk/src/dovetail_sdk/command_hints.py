"""What to do about an error, in words of the command line instead of those of Python."""

from __future__ import annotations

import shlex
from collections.abc import Container

from dovetail import DovetailError, ErrorCode

_LINES = 10
"""Lines of a message that are shown: one that lists layers may have hundreds."""

_IN_OTHER_WORDS = {
    "options names ": "--option names ",
    "isolate names ": "--isolate names ",
    "which is not in backends=": "which is not among the backends (-b)",
}
"""What the core calls in a message as Python does."""


def hint_for(error: DovetailError, options: Container[str]) -> str | None:
    """Return the next step after an error; None where there is none to tell.

    Args:
        error: The error, whose own hint is for whoever calls dovetail from Python.
        options: Those of the command.
    """
    inputs, symbols = error.details.get("inputs"), error.details.get("symbols")
    if error.code is ErrorCode.SHAPE_UNKNOWN:
        if symbols:
            return f"fix the open sizes: {' '.join(f'--shape {name}=1' for name in symbols)}"
        by_value = ", or what decides them: --value INPUT=VALUE" if "--value" in options else ""
        return f"fix the open sizes: --shape NAME=SIZE{by_value}"
    if error.code is ErrorCode.VALUE_REQUIRED and inputs:
        if "--value" in options:
            given = shlex.quote(f"{inputs[0]}=VALUE")
            return f"give its value: --value {given}, where VALUE is such as true, 3 or 1,3, or a .npy file"
        return f"this command gives inputs no values: make {inputs[0]!r} a constant of the model"
    if error.code is ErrorCode.NO_BACKEND_FOR_LAYER:
        return "name a backend that takes these layers behind the others, as in -b AcmeNpu,CpuRef"
    if error.hint and "dovetail.Limits(" in error.hint:
        first = "give it more time" if error.code is ErrorCode.TIMEOUT else "check the model, or allow it"
        return f"{first}: --limit {error.details.get('limit')}=..." if "--limit" in options else first.partition(",")[0]
    if error.hint and error.code is ErrorCode.TIMEOUT and "--timeout" in options:
        return "give it more time: --timeout SECONDS"
    if error.code is ErrorCode.BACKEND_UNAVAILABLE and error.hint and "backends=" in error.hint:
        return "install one (pip install dovetail), or name one: -b ID"
    return error.hint


def message_for(error: DovetailError) -> str:
    """Return what happened; of a long list of layers the beginning."""
    text = error.message
    for python, command in _IN_OTHER_WORDS.items():
        text = text.replace(python, command)
    lines = text.split("\n")
    if len(lines) <= _LINES + 1:
        return text
    return "\n".join([*lines[:_LINES], f"  ... and {len(lines) - _LINES} more"])
