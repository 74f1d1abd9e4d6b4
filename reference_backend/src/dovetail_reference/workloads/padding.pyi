from collections.abc import Sequence
from typing import Any

from dovetail.layers import PadMode

def pad_workload(
    how: PadMode,
    before: Sequence[int],
    sizes: Sequence[int],
    wanted: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    fill: bytes,
) -> Any: ...
