"""Exceptions of the host program that come up inside somebody else's code.

Python calls a signal handler between any two instructions of its main thread, so that what the
handler raises (SystemExit at SIGTERM, an error of a timer) may come out of a backend, a parser, an
import. It is the host's, and goes on to the host: whoever turns the exceptions of foreign code into
reports asks here first. A listener that ends its load, and a limit that a load exceeds, are the
host's word too.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from types import CodeType, FrameType, TracebackType
from typing import Any

from .limits import is_of_budget
from .progress import is_of_listener

_VARIABLE_ARGUMENTS = 0x04  # CO_VARARGS


def is_of_host(error: BaseException) -> bool:
    """Tell whether an exception is Ctrl-C, or comes from the host.

    That is a signal handler, or the listener or the limits of a load.
    """
    return isinstance(error, KeyboardInterrupt) or is_of_listener(error) or is_of_budget(error) or _is_of_handler(error)


def _is_of_handler(error: BaseException) -> bool:
    try:
        trace = error.__traceback__
    except BaseException:  # a property of somebody else's making
        return False
    while isinstance(trace, TracebackType):
        if _is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Tell whether a frame is that of a signal handler.

    It is one that is installed now, or called as one, with a signal and a frame.
    """
    if frame.f_code in _installed():
        return True
    arguments = _arguments(frame)
    return any(isinstance(number, int) and isinstance(interrupted, FrameType) for number, interrupted in pairwise(arguments))


def _installed() -> set[CodeType]:
    import signal  # here: a process that lists backends needs none of it

    found = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        if callable(handler):
            function = getattr(handler, "__func__", handler)  # of a bound method
            code = getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
            if isinstance(code, CodeType):
                found.add(code)
    return found


def _arguments(frame: FrameType) -> list[Any]:
    code, values = frame.f_code, frame.f_locals
    arguments = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & _VARIABLE_ARGUMENTS:
        more = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        arguments += more if isinstance(more, tuple) else ()
    return arguments
