"""Read messages in the encoding of protobuf as plain objects of Python.

See https://protobuf.dev/programming-guides/encoding/ for the encoding.

Files come from anywhere. Protobuf's own parser is C that ends the process where memory runs out at
the wrong moment; this one raises. A class of messages declares its fields (see `fields`); whatever
it does not declare is skipped. What stands there twice is joined or replaced as protobuf does it:
of a scalar the last counts, messages are merged, lists go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from dovetail.ground.limits import Budget, budget
from dovetail.ground.records import NamedTuple

VARINT, EIGHT_BYTES, SIZED, FOUR_BYTES = 0, 1, 2, 5
"""Wire types."""
FIRST_TAG = 1 << 3
"""Tags are numbers of fields, from 1, and wire types."""
LAST_BYTE = 9
"""Index of the last byte that a number can have."""
WORD = 1 << 64
LOOK_AFTER = 1 << 13
"""Bytes of a message after which the time is looked at.

What takes longest of them is a message in every second byte.
"""
Reader = Callable[[dict[str, Any], bytes | bytearray, int, int, int, Budget], None]
"""Reads a field of a message into its values.

The arguments are the values, the data, begin and end of the field, the depth of nesting, and what
the load may take.
"""
Taker = Callable[[dict[str, Any], int], None]
"""Takes the values of a message and a number."""


class WireError(ValueError):
    """The data is not encoded as it should be."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Its number.
        default: What a message without it has.
        bind: Given its name, says how to read it, by wire type.
        awaits: Name of the class of which the default is, where that comes later.
    """

    number: int
    default: Any
    bind: Callable[[str], dict[int, Any]]
    awaits: str = ""


class Message:
    """Base of all messages: what is not set shows as its shared default.

    The default must not be changed.

    Class attributes:
        numbers: Numbers of the fields by name.
    """

    _readers: ClassVar[dict[int, Reader]] = {}
    _takers: ClassVar[dict[int, Taker]] = {}
    _located: ClassVar[bool] = False
    numbers: ClassVar[dict[str, int]] = {}
    where: tuple[bytes | bytearray, int, int]

    def __init_subclass__(cls, *, located: bool = False) -> None:
        """Take the fields that a class declares.

        Messages of a `located` one in a list know their `encoded` bytes.
        """
        cls._readers, cls._takers, cls._located, cls.numbers = {}, {}, located, {}
        CLASSES[cls.__name__] = cls
        for name, field in list(vars(cls).items()):
            if isinstance(field, Field):
                cls.numbers[name] = field.number
                setattr(cls, name, field.default)
                for wire, read in field.bind(name).items():
                    (cls._takers if wire == VARINT else cls._readers)[field.number << 3 | wire] = read
                if field.awaits:
                    _AWAITING.setdefault(field.awaits, []).append((cls, name))
        for owner, name in _AWAITING.pop(cls.__name__, ()):
            setattr(owner, name, cls())

    @classmethod
    def read(cls, data: bytes | bytearray) -> Self:
        """Read a message.

        Raises:
            WireError: The data is damaged, or is none of this encoding.
            LimitError: Graphs are nested more deeply, or it holds more nodes or messages, than the
                load allows.
        """
        message = cls()
        message.where = data, 0, len(data)
        try:
            read_into(message, data, 0, len(data), 0, budget())
        except IndexError:  # one byte too few; asking each time would take longer
            raise WireError("the data ends within a field") from None
        except UnicodeDecodeError as error:
            raise WireError(f"a text begins with {error.object[:40]!r} and is no UTF-8: {error.reason}") from None
        except RecursionError:  # the caller was deep in calls itself, or allowed any nesting
            raise WireError("its messages are nested too deeply") from None
        return message

    @property
    def encoded(self) -> bytes:
        """The message as it stood in the data."""
        data, begin, end = self.where
        return bytes(memoryview(data)[begin:end])

    def has(self, name: str) -> bool:
        """Tell whether a field is set."""
        return name in self.__dict__

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.numbers if self.has(name))
        return f"{type(self).__name__}({given})"


CLASSES: dict[str, type[Message]] = {}
_AWAITING: dict[str, list[tuple[type[Message], str]]] = {}
"""Fields whose class comes later, by its name."""


def read_into(message: Message, data: bytes | bytearray, at: int, end: int, depth: int, load: Budget) -> None:
    """Read what stands between two places of the data into a message.

    Raises:
        WireError: It is damaged.
        IndexError: The data ends within a field.
        LimitError: It would become too much (`LIMIT_EXCEEDED`), or the time is over (`TIMEOUT`).
    """
    values, readers, takers = message.__dict__, message._readers, message._takers
    look_at = at + LOOK_AFTER
    while at < end:
        if at > look_at:
            look_at = at + LOOK_AFTER
            load.check_time()
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = decode_number(data, at - 1)
        wire = tag & 7
        if wire == VARINT:
            number = data[at]
            at += 1
            if number > 0x7F:
                number, at = decode_number(data, at - 1)
            take = takers.get(tag)
            if take is not None:
                take(values, number)
            elif tag < FIRST_TAG:
                raise WireError("a field without a number")
            continue
        if wire == SIZED:
            size = data[at]
            at += 1
            if size > 0x7F:
                size, at = decode_number(data, at - 1)
            stop = at + size
        elif wire in (FOUR_BYTES, EIGHT_BYTES):
            stop = at + (4 if wire == FOUR_BYTES else 8)
        else:
            raise WireError(f"wire type {wire}")
        if stop > end:
            raise WireError("a field is longer than what is around it")
        read = readers.get(tag)
        if read is not None:
            read(values, data, at, stop, depth, load)
        elif tag < FIRST_TAG:
            raise WireError("a field without a number")
        at = stop
    if at != end:
        raise WireError("a field is longer than what is around it")


def decode_number(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Decode a number, groups of seven bits; returns it and where it ends."""
    value = shift = 0
    for _ in range(LAST_BYTE + 1):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % WORD, at
        shift += 7
    raise WireError("a number without an end")
