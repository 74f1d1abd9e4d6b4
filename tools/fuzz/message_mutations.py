"""Mutations of any field of any protobuf message: they know the format, not what it means."""

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from . import values

NUMBERS = {
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
}
FRACTIONS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)


def mutate(luck: random.Random, model: Message, other: Message) -> str:
    """Change one field of the model, or of a message below it, in place; returns what was done.

    Args:
        luck: Decides.
        model: What is changed.
        other: Another model, whose messages may be taken.
    """
    for _ in range(20):
        message, field = _site(luck, model)
        if field.is_repeated:
            done = _repeated(luck, message, field, model, other)
        elif field.message_type is not None:
            done = _submessage(luck, message, field, model, other)
        else:
            setattr(message, field.name, scalar(luck, field, getattr(message, field.name), model))
            done = "set"
        if done:
            return f"{done} {message.DESCRIPTOR.name}.{field.name}"
    return "nothing"


def messages(root: Message) -> Iterator[Message]:
    """Walk over a message and all below it."""
    yield root
    for field, value in root.ListFields():
        if field.message_type is not None:
            for entry in value if field.is_repeated else (value,):
                yield from messages(entry)


def _site(luck: random.Random, model: Message) -> tuple[Message, FieldDescriptor]:
    """Choose a message, each kind as often as any other, and a field of it, rather a set one."""
    by_kind: dict[str, list[Message]] = {}
    for message in messages(model):
        by_kind.setdefault(message.DESCRIPTOR.name, []).append(message)
    message = luck.choice(by_kind[luck.choice(sorted(by_kind))])
    present = [field for field, _ in message.ListFields()]
    fields = present if present and luck.random() < 0.85 else list(message.DESCRIPTOR.fields)
    return message, luck.choice(fields)


def _taken(luck: random.Random, kind: str, *roots: Message) -> Message | None:
    found = [message for root in roots for message in messages(root) if message.DESCRIPTOR.name == kind]
    return luck.choice(found) if found else None


def _copy(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _submessage(luck: random.Random, message: Message, field: FieldDescriptor, model: Message, other: Message) -> str:
    if message.HasField(field.name) and luck.random() < 0.4:
        message.ClearField(field.name)
        return "clear"
    donor = _taken(luck, field.message_type.name, model, other)
    if donor is None or donor.ByteSize() > 100_000:
        return ""
    getattr(message, field.name).CopyFrom(_copy(donor))
    return "replace"


def _repeated(luck: random.Random, message: Message, field: FieldDescriptor, model: Message, other: Message) -> str:
    entries = getattr(message, field.name)
    size = len(entries)
    what = luck.choice(("delete", "double", "swap", "change", "change", "add", "add", "clear", "many"))
    if (what in ("delete", "double", "change") and not size) or (what == "swap" and size < 2):
        what = "add"
    if what == "delete":
        del entries[luck.randrange(size)]
    elif what == "clear":
        message.ClearField(field.name)
    elif field.message_type is not None:
        return _repeated_messages(luck, entries, what, field.message_type.name, model, other)
    elif what == "swap":
        a, b = luck.sample(range(size), 2)
        entries[a], entries[b] = entries[b], entries[a]
    elif what == "double":
        entries.append(entries[luck.randrange(size)])
    elif what == "change":
        place = luck.randrange(size)
        entries[place] = scalar(luck, field, entries[place], model)
    else:
        value = scalar(luck, field, entries[0] if size else None, model)
        entries.extend([value] * (luck.choice((2, 5, 70, 1000)) if what == "many" else 1))
    return what


def _repeated_messages(luck: random.Random, entries: Any, what: str, kind: str, model: Message, other: Message) -> str:
    if what == "swap":
        a, b = luck.sample(range(len(entries)), 2)
        first, second = _copy(entries[a]), _copy(entries[b])
        entries[a].CopyFrom(second)
        entries[b].CopyFrom(first)
        return what
    donor = entries[luck.randrange(len(entries))] if what == "double" else _taken(luck, kind, model, other)
    if donor is None or donor.ByteSize() > 100_000:
        return ""
    donor = _copy(donor)
    if what == "change":
        entries[luck.randrange(len(entries))].CopyFrom(donor)
    else:
        for _ in range(luck.choice((2, 5, 40)) if what == "many" and donor.ByteSize() < 1000 else 1):
            entries.append(donor)
    return what


def scalar(luck: random.Random, field: FieldDescriptor, value: Any, model: Message) -> Any:
    """Draw another value of a field."""
    if field.type in NUMBERS:
        low, high = NUMBERS[field.type]
        drawn = values.integer(luck)
        if isinstance(value, int) and luck.random() < 0.3:
            drawn = value + luck.choice((-2, -1, 1, 2))
        return min(max(drawn, low), high)
    if field.type in FRACTIONS:
        return values.number(luck)
    if field.enum_type is not None:
        numbers = [entry.number for entry in field.enum_type.values]
        return luck.choice(numbers)  # an open enum would take others too, and ONNX's are closed
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _bytes(luck, value or b"")
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(luck, model)
    return luck.random() < 0.5


def _bytes(luck: random.Random, value: bytes) -> bytes:
    what = luck.randrange(6)
    if what == 0:
        return value[: luck.randrange(len(value) + 1)]
    if what == 1:
        return value + luck.randbytes(luck.choice((1, 4, 8, 100)))
    if what == 2:
        return luck.choice(values.TEXTS).encode()
    if what == 3:
        return luck.randbytes(len(value) or 4)
    if what == 4:
        return b"\xff" * (len(value) or 8)
    changed = bytearray(value or b"\0")
    changed[luck.randrange(len(changed))] = luck.randrange(256)
    return bytes(changed)


def _text(luck: random.Random, model: Message) -> str:
    """Choose a text, rather one used elsewhere: it bends edges, makes cycles and duplicates."""
    if luck.random() < 0.3:
        return luck.choice(values.TEXTS)
    found = sorted({text for message in messages(model) for text in _texts(message)})
    return luck.choice(found) if found else ""


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            yield from value if field.is_repeated else (value,)
