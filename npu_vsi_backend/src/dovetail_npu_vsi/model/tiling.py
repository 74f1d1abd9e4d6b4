"""In which pieces images go through the memory on the chip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .commands import SRAM, Block


class Window(NamedTuple):
    """What slides over an image.

    Attributes:
        size, stride, dilation: Vertically and horizontally.
        padding: Top, left, bottom, right.
    """

    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def height(self) -> int:
        """Rows of the image that a window reaches over."""
        return (self.size[0] - 1) * self.dilation[0] + 1


class Band(NamedTuple):
    """Some rows of results, and the rows of the image that they are made of.

    Attributes:
        first_result, results: Rows of the result.
        first_row, rows: Of the image, without padding; none where a band lies in the padding alone.
        padding: Rows of zeros above them that the first result's window covers.
        fits: Whether they fit into the memory on the chip; else they are read where they are.
    """

    first_result: int
    results: int
    first_row: int
    rows: int
    padding: int
    fits: bool


def bands(read: Block, written: Block, window: Window, room: int) -> Iterator[Band]:
    """Split the rows of a result so that what each piece reads fits into a room of bytes.

    What lies on the chip already is read in one piece.
    """
    height, results = read.size[2], written.size[2]
    row_bytes = max(read.size[0] * read.size[1] * read.size[3], 1)
    rows_that_fit = room // row_bytes
    fits = rows_that_fit >= min(window.height, height)
    at_once = results
    if read.place.memory != SRAM and fits and rows_that_fit < height:
        at_once = max((rows_that_fit - window.height) // window.stride[0] + 1, 1)
    for first in range(0, results, at_once):
        count = min(at_once, results - first)
        top = first * window.stride[0] - window.padding[0]
        bottom = top + (count - 1) * window.stride[0] + window.height
        begin, end = min(max(top, 0), height), min(max(bottom, 0), height)
        yield Band(first, count, begin, max(end - begin, 0), begin - top, fits)


def channel_groups(read: Block, window: Window, groups: int, filters: int, room: int) -> Iterator[tuple[int, int]]:
    """Split the filters of a convolution with groups so that the channels of a piece may fit.

    Yields the first filter and how many there are. Filters of one group read all of its channels,
    and stay together.
    """
    per_group = filters // groups
    bytes_of_group = max(read.size[0] * (read.size[1] // groups) * read.size[3] * min(window.height, read.size[2]), 1)
    at_once = groups if read.place.memory == SRAM else max(min(room // bytes_of_group, groups), 1)
    for first in range(0, groups, at_once):
        yield first * per_group, min(at_once, groups - first) * per_group
