"""The validated name of a backend."""

from __future__ import annotations

import re

from ..ground.errors import BackendError, ErrorCode
from ..ground.records import NamedTuple

_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_REQUEST = re.compile(r"(?P<id>[^:?]*)(?::(?P<device>\d+))?(?P<optional>\?)?")


_ONE = "an id is a letter followed by letters, digits or underscores, such as 'CpuRef'"
_LIST = "give several as a list of ids, in the order of preference: ['AcmeNpu?', 'CpuRef']"

RESERVED = ("core", "host")
"""What reports call the core itself, and memories the host: no id of a backend."""


class BackendId(str):
    """A backend's id, such as ``CpuRef``: a letter, then letters, digits, underscores; at most 64.

    Those that are `RESERVED`, in upper or lower case, are none.

    Raises:
        BackendError: `BACKEND_ID_INVALID`.
    """

    __slots__ = ()

    def __new__(cls, value: str) -> BackendId:
        if not isinstance(value, str) or not _PATTERN.fullmatch(value):
            raise BackendError(
                f"{value!r} is not a backend id",
                code=ErrorCode.BACKEND_ID_INVALID,
                hint=_LIST if "," in str(value) else _ONE,
            )
        if value.lower() in RESERVED:
            raise BackendError(
                f"{value!r} is not a backend id: it names what belongs to the core",
                code=ErrorCode.BACKEND_ID_INVALID,
                hint=f"take another name than {' or '.join(map(repr, RESERVED))}",
            )
        return super().__new__(cls, value)


class BackendRequest(NamedTuple):
    """One entry of a preference list.

    ``AcmeNpu``, ``AcmeNpu:1`` (device 1) or ``AcmeNpu?`` (may be absent).
    """

    id: BackendId
    device: int = 0
    optional: bool = False

    @classmethod
    def parse(cls, text: str | BackendRequest) -> BackendRequest:
        """Read one entry.

        Raises:
            BackendError: `BACKEND_ID_INVALID`.
        """
        if isinstance(text, BackendRequest):
            return text
        match = _REQUEST.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise BackendError(
                f"{text!r} is not a backend request",
                code=ErrorCode.BACKEND_ID_INVALID,
                hint="write 'AcmeNpu', 'AcmeNpu:1' for its device 1, or 'AcmeNpu?' if it may be absent",
            )
        return cls(BackendId(match["id"]), int(match["device"] or 0), match["optional"] is not None)

    def __str__(self) -> str:
        return f"{self.id}{f':{self.device}' if self.device else ''}{'?' if self.optional else ''}"
