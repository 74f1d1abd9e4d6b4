"""Windows without the part of them that no result reads inside the image.

What is left is in proportion to the image and the results, whatever the attributes say: padding of
millions of pixels around an image of one, steps of which there is none. So kernels neither walk
over what is not there nor compute where it would lie.
"""

from __future__ import annotations

from dovetail.ground.records import NamedTuple

from .window import Geometry


class ClippedAxis(NamedTuple):
    """Windows along rows or columns.

    Attributes:
        taps: Those of the window that are left, at least one unless there were none.
        stride, dilation, padding: As before, but 1 where there is no step, and the padding before
            the taps that are left.
    """

    taps: slice
    stride: int
    dilation: int
    padding: int

    @classmethod
    def of(cls, kernel: int, stride: int, dilation: int, padding: int, size: int, results: int) -> ClippedAxis:
        """Clip windows over an axis of so many pixels, at so many results."""
        before = (results - 1) * stride
        # No further than the padding reaches, so that what is left of it is not negative.
        first = max(0, min(-((before - padding) // dilation), padding // dilation)) if results else 0
        last = min(kernel, (size - 1 + padding) // dilation + 1) if size else 0
        if first >= last:  # nothing is read: all of one tap lies before the image
            return cls(slice(0, min(kernel, 1)), 1, 1, results)
        steps = stride if results > 1 else 1, dilation if last - first > 1 else 1
        return cls(slice(first, last), *steps, padding - first * dilation)


class ClippedWindow(NamedTuple):
    """A window, and the rows and columns of the original one that are left."""

    geometry: Geometry
    rows: slice
    columns: slice


def clipped(geometry: Geometry, sizes: tuple[int, int], results: tuple[int, int]) -> ClippedWindow:
    """Clip a window to images of so many pixels; pairs are (height, width)."""
    kernel, stride, dilation, padding = geometry
    rows, columns = (
        ClippedAxis.of(kernel[axis], stride[axis], dilation[axis], padding[axis], sizes[axis], results[axis])
        for axis in range(2)
    )
    made = Geometry(
        (rows.taps.stop - rows.taps.start, columns.taps.stop - columns.taps.start),
        (rows.stride, columns.stride),
        (rows.dilation, columns.dilation),
        (rows.padding, columns.padding),
    )
    return ClippedWindow(made, rows.taps, columns.taps)
