"""Mutations that know nothing of the format: broken disks, cut downloads, hex editors."""

import random

INTERESTING = (0x00, 0x01, 0x7F, 0x80, 0xFF)


def mutate(luck: random.Random, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Change some bytes; returns them and what was done.

    Args:
        luck: Decides.
        data: A model file.
        other: Another one, for splices.
    """
    change = luck.choice((_flip, _flip, _set, _set, _cut, _drop, _double, _insert, _splice, _stretch, _spoil))
    return change(luck, bytearray(data) or bytearray(1), other), change.__name__.lstrip("_") + " bytes"


def _span(luck: random.Random, data: bytearray) -> tuple[int, int]:
    begin = luck.randrange(len(data))
    return begin, min(len(data), begin + luck.choice((1, 2, 4, 8, 64)))


def _flip(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    for _ in range(luck.randint(1, 4)):
        data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
    return bytes(data)


def _set(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    for _ in range(luck.randint(1, 4)):
        data[luck.randrange(len(data))] = luck.choice((*INTERESTING, luck.randrange(256)))
    return bytes(data)


def _cut(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    return bytes(data[: luck.randrange(len(data))])


def _drop(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    begin, end = _span(luck, data)
    del data[begin:end]
    return bytes(data)


def _double(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    begin, end = _span(luck, data)
    return bytes(data[:end] + data[begin:end] * luck.choice((1, 1, 2, 50)) + data[end:])


def _insert(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    place = luck.randrange(len(data))
    return bytes(data[:place]) + luck.randbytes(luck.randint(1, 8)) + bytes(data[place:])


def _splice(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    begin, end = _span(luck, data)
    source = luck.randrange(max(1, len(other)))
    return bytes(data[:begin]) + other[source : source + end - begin] + bytes(data[end:])


def _stretch(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    """Put the longest varint, or a size far past the end, over some bytes."""
    begin = luck.randrange(len(data))
    return (
        bytes(data[:begin]) + luck.choice((b"\xff" * 9 + b"\x01", b"\xff\xff\xff\x7f", b"\x80\x00")) + bytes(data[begin + 1 :])
    )


def _spoil(luck: random.Random, data: bytearray, other: bytes) -> bytes:
    """Put a byte that is no UTF-8 into a text: protobuf takes it, and hands it on."""
    letters = [place for place, byte in enumerate(data[:20_000]) if chr(byte).isalpha() and byte < 0x80]
    for _ in range(luck.randint(1, 3) if letters else 0):
        data[luck.choice(letters)] = luck.choice((0xFF, 0xC0, 0xED, 0x80))
    return bytes(data)
