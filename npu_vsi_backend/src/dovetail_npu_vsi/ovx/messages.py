"""What a process and its child that opens the vendor's libraries say to each other.

Each message is a letter, the length of its content, and the content. Both ends are this package and
start from the same files, so that what is pickled is trusted.
"""

from __future__ import annotations

import os
import struct

from ..errors import ID, VsiError

COMPILE = b"c"  # to the child: a pickled request; it answers PROGRESS, then BINARY
PROGRESS = b"p"  # a fraction as a double, and text
BINARY = b"b"
LOAD = b"l"  # a pickled request; it answers OPERANDS
OPERANDS = b"o"  # pickled: inputs, then outputs
RUN = b"r"  # the inputs' bytes; it answers RESULTS
RESULTS = b"s"  # the outputs' bytes
TIME = b"t"  # after RESULTS; it answers TIMES
TIMES = b"m"  # pickled: of each `OperationTime` its fields in a tuple
PROBE = b"d"  # a pickled request; it answers PROBED
PROBED = b"f"  # pickled: facts of the device
FAILURE = b"e"  # pickled: text, code and hint of a `VsiError`

HEAD = struct.Struct("<cQ")
FRACTION = struct.Struct("<d")


def send(descriptor: int, kind: bytes, *parts: bytes | memoryview) -> None:
    """Write a message of these parts; returns when all of it is written."""
    length = sum(len(part) for part in parts)
    for part in (HEAD.pack(kind, length), *parts):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> tuple[bytes, bytes]:
    """Return the next message's letter and content; an empty letter at the end."""
    head = _exactly(descriptor, HEAD.size)
    if not head:
        return b"", b""
    kind, length = HEAD.unpack(head)
    return kind, _exactly(descriptor, length)


def _exactly(descriptor: int, length: int) -> bytes:
    """Read so many bytes; none if the other end was closed."""
    made = bytearray()
    while len(made) < length:
        part = os.read(descriptor, min(length - len(made), 1 << 20))
        if not part:
            return b""
        made += part
    return bytes(made)


def text_of(error: VsiError) -> str:
    """Return what an error says, without the backend's name that it begins with."""
    return error.message.removeprefix(f"backend {ID!r}: ")
