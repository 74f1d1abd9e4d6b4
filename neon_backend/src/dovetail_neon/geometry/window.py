"""Windows over images."""

from __future__ import annotations

from dovetail.ground.records import NamedTuple


class Geometry(NamedTuple):
    """Windows over an image: pairs are (height, width), padding is (top, left)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)


POINT = Geometry((1, 1))
