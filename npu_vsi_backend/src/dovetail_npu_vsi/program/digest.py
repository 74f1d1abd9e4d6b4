"""What a program is known by, with its weights."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .program import Program


def digest(program: Program) -> str:
    """Return the SHA-256 of all that decides what a program is compiled to.

    Names do not: what two loads call alike parts, in this process or in one of its own, has one
    digest.
    """
    made = hashlib.sha256()
    _add(made, program)
    return made.hexdigest()


_FOR_REPORTS = frozenset(("name", "sources"))
"""Attributes of programs, tensors and operations that are for people alone."""

_PLAIN = frozenset((bool, int, float, str, type(None)))
"""Types whose values, and tuples of which, no other value is printed like."""


def _add(made: Any, value: Any) -> None:
    """Add a value, its type first, so that none can stand for another."""
    made.update(f"{type(value).__name__}(".encode())
    kinds = set(map(type, value)) if type(value) is tuple else {type(value)}
    if kinds == {float} and type(value) is tuple:
        made.update(f"{len(value)} doubles:".encode())  # as bytes: weights have thousands of scales
        made.update(array("d", value))
    elif kinds <= _PLAIN:
        made.update(repr(value).encode())
    elif is_dataclass(value):
        for one in fields(value):
            if one.name not in _FOR_REPORTS:
                made.update(one.name.encode())
                _add(made, getattr(value, one.name))
    elif isinstance(value, np.ndarray):
        made.update(f"{value.dtype.str}{value.shape}:".encode())
        made.update(np.ascontiguousarray(value).data)
    elif isinstance(value, tuple):
        for part in value:
            _add(made, part)
    else:
        made.update(repr(value).encode())
    made.update(b")")
