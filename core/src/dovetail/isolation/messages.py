"""What the host and its processes tell each other: JSON with descriptors, one message at a time.

The host believes nothing of what a process says: a message is JSON of a bounded size, whoever reads
one checks the type of each fact, and an error is rebuilt from its texts. Pickles go from the host
to its processes only.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ground.errors import (
    BackendError,
    BackendUnavailableError,
    DovetailError,
    ErrorCode,
    GraphError,
    LimitError,
    LoadTimeoutError,
    ModelError,
    OptionError,
    PlacementError,
    RunError,
    RunTimeoutError,
    UnsupportedModelError,
)
from ..ground.foreign_text import described

_HEAD = struct.Struct("<I")
_LARGEST = 16 << 20
"""Bytes of a message."""
MAX_STEPS = 4096
"""Of a part, that a process says words of."""
_MOST_DESCRIPTORS = 4
_TICK_SECONDS = 0.01
_KINDS: Mapping[str, type[DovetailError]] = {
    kind.__name__: kind
    for kind in (
        *(BackendError, BackendUnavailableError, DovetailError, GraphError, LimitError, LoadTimeoutError, ModelError),
        *(OptionError, PlacementError, RunError, RunTimeoutError, UnsupportedModelError),
    )
}
_TRACE = 8192
"""Characters of a traceback; the last ones."""

Message = dict[str, Any]


class ChildError(Exception):
    """What a backend raised in its process: the traceback as text, chained to the host's error.

    Attributes:
        text_of_child: The exception itself, in one line.
    """

    def __init__(self, text: str, trace: str) -> None:
        super().__init__(f"in the backend's process:\n{trace}" if trace else text)
        self.text_of_child = text


class EndedError(Exception):
    """The other end is gone, or does not speak as it should; the text says which."""


def send(connection: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send a message.

    Raises:
        EndedError: Nobody reads any more.
    """
    content = json.dumps(message).encode()
    data = _HEAD.pack(len(content)) + content
    try:
        sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else connection.send(data)
        connection.sendall(data[sent:])
    except OSError as error:
        raise EndedError(f"its connection ended: {error.strerror}") from error


def receive(connection: socket.socket, look: Callable[[], object] | None = None) -> tuple[Message, list[int]]:
    """Receive a message and its descriptors.

    Args:
        connection: Where from.
        look: Called every 10 ms while nothing comes; what it raises ends the wait. None: wait.

    Raises:
        EndedError: The other end is gone, or sent what is no message.
    """
    head, descriptors = _exactly(connection, _HEAD.size, look, with_descriptors=True)
    try:
        (nbytes,) = _HEAD.unpack(head)
        if nbytes > _LARGEST:
            raise EndedError(f"it sent a message of {nbytes} bytes")
        content, _ = _exactly(connection, nbytes, look)
        message = json.loads(content)
        if not isinstance(message, dict):
            raise EndedError("it sent what is no message")
    except (ValueError, RecursionError) as error:
        _close(descriptors)
        raise EndedError("it sent what is no message") from error
    except BaseException:
        _close(descriptors)
        raise
    return message, descriptors


def _exactly(
    connection: socket.socket, nbytes: int, look: Callable[[], object] | None, *, with_descriptors: bool = False
) -> tuple[bytes, list[int]]:
    found, descriptors = b"", list[int]()
    try:
        while len(found) < nbytes:
            while look is not None and not _is_readable(connection):
                look()
            data, got = _some(connection, nbytes - len(found), with_descriptors=with_descriptors and not found)
            found, descriptors = found + data, descriptors + got
    except BaseException:
        _close(descriptors)
        raise
    return found, descriptors


def _some(connection: socket.socket, nbytes: int, *, with_descriptors: bool) -> tuple[bytes, list[int]]:
    got: list[int] = []
    try:  # around this alone: a time limit that `look` raises is an OSError, too
        if with_descriptors:
            data, got, _, _ = socket.recv_fds(connection, nbytes, _MOST_DESCRIPTORS)
        else:
            data = connection.recv(min(nbytes, 1 << 20))
    except OSError as error:
        raise EndedError(f"its connection ended: {error.strerror}") from error
    if not data:
        _close(got)
        raise EndedError("its connection ended")
    return data, got


def _is_readable(connection: socket.socket) -> bool:
    poller = select.poll()  # select() itself knows no descriptors from 1024 on
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(_TICK_SECONDS * 1000))


def _close(descriptors: Sequence[int]) -> None:
    for one in descriptors:
        os.close(one)


def described_error(error: BaseException, *, longest: int = _TRACE) -> Message:
    """Return an error as a message; `longest` counts the characters of its traceback."""
    trace = "".join(traceback.format_exception(error))[-longest:]
    cause = error.__cause__ if isinstance(error, DovetailError) and error.__cause__ is not None else error
    known: Message = {"text": described(cause), "trace": trace}
    if isinstance(error, DovetailError):
        kind = next((one for one in type(error).__mro__ if one.__name__ in _KINDS), DovetailError)
        state = error.details.get("state")
        return {
            **known,
            "kind": kind.__name__,
            "code": str(error.code),
            "message": error.message,
            "hint": error.hint,
            "details": {"state": state} if isinstance(state, str) else {},
        }
    return known


def rebuilt_error(message: object, origin: str) -> DovetailError:
    """Return the error that a message describes, its traceback chained as a `ChildError`.

    Args:
        message: Of `described_error`, as the other end sent it.
        origin: Whose error it is, as in "backend 'AcmeNpu'".
    """
    facts = message if isinstance(message, dict) else {}
    text, trace = _text(facts.get("text")), _text(facts.get("trace"))
    kind, code = _KINDS.get(_text(facts.get("kind"))), _text(facts.get("code"))
    details = facts.get("details")
    state = details.get("state") if isinstance(details, dict) else None
    error: DovetailError
    if kind is None or code not in ErrorCode.__members__:
        error = BackendError(f"{origin}: raised {text or 'an error without a text'}", code=ErrorCode.BACKEND_BROKEN)
    else:
        hint = _text(facts.get("hint")) or None
        known = {"state": state} if isinstance(state, str) else {}
        error = kind(_text(facts.get("message")), code=ErrorCode[code], hint=hint, **known)
    error.__cause__ = ChildError(text, trace)
    return error


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
