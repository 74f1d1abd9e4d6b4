"""Parameters of windows that slide over images, and how images and filters are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DataLayout

from ..cases import Array, Parameters

HEIGHT, WIDTH = 8, 9

IMAGE: Mapping[str, Sequence[Any]] = {
    "batch": (1, 2, 3, 0),
    "height": (HEIGHT, 1, 3, 7, 16),
    "width": (WIDTH, 1, 3, 8, 10, 17),
}
"""Sizes of an image; channels differ from kind to kind."""

SLIDING: Mapping[str, Sequence[Any]] = {
    "stride": ((1, 1), (2, 2), (2, 1), (1, 3), (4, 4)),
    "padding": ((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 2, 1), (2, 2, 2, 2)),
    "dilation": ((1, 1), (2, 2), (1, 2), (3, 1)),
}
"""How a window slides."""

_NO_STEP, _NO_WINDOW = "a step of 0 leads nowhere", "a window without elements has no result"
WITHOUT_WINDOW: Mapping[str, str] = {
    "*: stride below 1": _NO_STEP,
    "*: dilation below 1": _NO_STEP,
    "*: size below 1": _NO_WINDOW,
    "*: weights.height below 1": _NO_WINDOW,
    "*: weights.width below 1": _NO_WINDOW,
}
"""Sides of limits on which there are no layers; see `Operator.impossible`."""

LAYOUTS = tuple(DataLayout)

IMAGE_QUANTITIES: Mapping[str, str] = {f"input.{name}": name for name in ("batch", "height", "width", "channels")} | {
    "input.0": "batch",
    "output.0": "batch",
    "output.batch": "batch",
}


FILTERED: Mapping[str, Sequence[Any]] = {
    "channels": (4, 1, 3, 8, 17),
    "kernel height": (3, 1, 2, 5),
    "kernel width": (3, 1, 2, 7),
    "layout": LAYOUTS,
}
"""Parameters of what has filters, but for their count and how they slide."""

FILTER_QUANTITIES: Mapping[str, str] = {
    **IMAGE_QUANTITIES,
    "weights.height": "kernel height",
    "weights.width": "kernel width",
}
"""What governs the quantities of images and of the filters that slide over them."""


def fitted(parameters: Parameters, kernel: tuple[int, int]) -> tuple[int, int] | None:
    """Return (height, width) of an image that the window fits into; None if there is none.

    An image of the default size grows to the window, so that a limit of the window's size or
    dilation can be stepped over.
    """
    sizes = [parameters["height"], parameters["width"]]
    if min(*kernel, *parameters["stride"], *parameters["dilation"]) < 1 or min(parameters["padding"]) < 0:
        return None
    for i, default in enumerate((HEIGHT, WIDTH)):
        reach = parameters["dilation"][i] * (kernel[i] - 1) + 1
        lacking = reach - sizes[i] - parameters["padding"][i] - parameters["padding"][i + 2]
        if lacking > 0:
            if sizes[i] != default:
                return None
            sizes[i] += lacking
    return sizes[0], sizes[1]


def image_from_nchw(x: Array, layout: DataLayout) -> Array:
    """Bring an NCHW image, or filters [O, C, h, w], into a layout."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1) if layout is DataLayout.NHWC else x)


def filters_first(weights: Array, layout: DataLayout) -> Array:
    """Bring depthwise or transposed convolution filters [A, B, h, w] into [B, h, w, A] for NHWC."""
    return np.ascontiguousarray(weights.transpose(1, 2, 3, 0) if layout is DataLayout.NHWC else weights)
