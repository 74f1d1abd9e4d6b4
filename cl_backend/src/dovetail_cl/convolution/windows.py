"""Windows of single channels on a CPU, where channels are neighbours; see windows.cl."""

from __future__ import annotations

from typing import Any

import numpy as np

from .geometry import Geometry

_UNROLLED = (3, 5)
"""Columns of taps that have programs of their own, with strides of 1 and 2."""
_PAIRS = ("in_size", "taps", "stride", "start", "between")
WINDOWS = np.dtype([(name, np.int32, 2) for name in _PAIRS] + [("in_at", np.uint32, 4), ("channels", np.uint32)])


def windows_of(geometry: Geometry) -> Any:
    """Return the windows of a convolution of single channels as kernels take them."""
    given = np.zeros((), WINDOWS)
    for name in ("in_at", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["channels"] = geometry.groups
    return given


def windows_defined(geometry: Geometry) -> dict[str, int]:
    """Return what `windows.cl` wants to be defined of a convolution."""
    taps, stride = geometry.taps[1], geometry.stride[1]
    is_known = taps in _UNROLLED and stride <= 2 and geometry.between[1] == 1
    return {"TAPS": taps if is_known else 0, "STRIDE": stride if is_known else 0}
