"""Where the taps of a convolution read, if the pixels that one of them sees lie side by side.

With a step of more than one pixel, those lie apart in the image. Its rows and columns are therefore
arranged as *planes*, one for each pair of remainders that some tap has; in its plane, a tap sees
pixels side by side.
"""

from __future__ import annotations

from dovetail.ground.limits import budget
from dovetail.ground.records import NamedTuple

from .window import Geometry


class TapPlanes(NamedTuple):
    """Planes, and the taps in the order of the window.

    Attributes:
        starts: Row and column of the padded image at which each plane begins.
        taps: Plane of each tap, and the row and column of it that the first result reads.
    """

    starts: tuple[tuple[int, int], ...]
    taps: tuple[tuple[int, int, int], ...]

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that planes have more than the result."""
        return max(row for _, row, _ in self.taps), max(column for _, _, column in self.taps)


def planes_of(geometry: Geometry, *, whole_rows: bool = False) -> TapPlanes:
    """Find the planes of a window.

    Args:
        geometry: The window.
        whole_rows: A tap is a row of the window, and planes hold every column.

    >>> planes_of(Geometry((1, 3), stride=(1, 2)))
    TapPlanes(starts=((0, 0), (0, 1)), taps=((0, 0, 0), (1, 0, 0), (0, 0, 1)))
    """
    starts: dict[tuple[int, int], int] = {}
    taps = []
    load = budget()
    for row in range(geometry.kernel[0]):
        load.check_time()
        for column in range(1 if whole_rows else geometry.kernel[1]):
            y, y_rest = divmod(row * geometry.dilation[0], geometry.stride[0])
            x, x_rest = divmod(column * geometry.dilation[1], geometry.stride[1])
            taps.append((starts.setdefault((y_rest, x_rest), len(starts)), y, x))
    return TapPlanes(tuple(starts), tuple(taps))
