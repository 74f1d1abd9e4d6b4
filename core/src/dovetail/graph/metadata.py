"""What a model file says of itself, as a graph holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ..ground.errors import ErrorCode, GraphError
from ..ground.limits import budget

_ENTRY = 256
"""Bytes of an entry besides its characters: two objects, and their place in a dictionary."""
_CHARACTER = 4
"""Most bytes of one, in memory."""


class ReadOnlyMetadata(dict[str, str]):
    """A dictionary that is not changed; a copy or a pickle of it is a plain one.

    It is a `dict`, which `MappingProxyType` is not, so that it can be written as JSON.
    """

    def _refuse(self, *arguments: Any, **more: Any) -> NoReturn:
        raise TypeError("metadata are read-only here; assign a new dictionary to network.metadata")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(self),)

    def __copy__(self) -> dict[str, str]:
        return dict(self)

    def __deepcopy__(self, memo: object) -> dict[str, str]:
        return dict(self)


def held_metadata(given: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of what is given, counted among the memory of the load under way.

    Raises:
        GraphError: It is no mapping of text to text (`ATTRIBUTE_INVALID`).
        LimitError: It takes more memory than the load may (`LIMIT_EXCEEDED`).
    """
    found = dict(given) if isinstance(given, Mapping) else None
    if found is None or not all(isinstance(one, str) for entry in found.items() for one in entry):
        raise GraphError(
            f"metadata are {type(given).__name__!r}" if found is None else "metadata hold something that is no text",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint="give a dictionary of text by name, such as {'author': 'Initech'}",
        )
    characters = sum(len(name) + len(text) for name, text in found.items())
    budget().take_memory(_ENTRY * len(found) + _CHARACTER * characters, "what the file says of itself")
    return found
