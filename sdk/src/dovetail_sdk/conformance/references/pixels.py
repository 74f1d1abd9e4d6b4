"""Blocks of pixels and channels: definitions of SpaceToDepth and DepthToSpace, and their cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DataLayout, Descriptor, DType

from ..cases import Array, Case, Feed, Operator, Parameters
from . import samples
from .single_layer import carries, layer_case, marked

BLOCKS: Mapping[str, Sequence[Any]] = {
    "batch": (1, 2, 3, 0),
    "block": (2, 1, 3),
    "layout": tuple(DataLayout),
    "quantization": (None, "kept"),
}
"""Parameters of a layer that moves blocks of pixels, but for the other sizes of its images."""

PIXEL_QUANTITIES: Mapping[str, str] = {f"input.{name}": name for name in ("batch", "channels", "height", "width")}


def pixel_operator(
    kind: str,
    make: Callable[[Parameters, DType, np.random.Generator], Case | None],
    sizes: Mapping[str, Sequence[Any]],
    together: Sequence[Parameters],
) -> Operator:
    """Describe a kind of dovetail's that moves blocks of pixels of images of these sizes."""
    return Operator(
        f"dovetail.{kind}",
        samples.ALL,
        {**BLOCKS, **sizes},
        make,
        PIXEL_QUANTITIES,
        together,
        impossible={"*: *put*.rank *": "images of the kind have rank 4"},
    )


def laid_out(x: Array, layout: DataLayout) -> Array:
    """Bring an NHWC image into a layout."""
    return x if layout is DataLayout.NHWC else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def space_to_depth(x: Array, block: int) -> Array:
    """Move pixel (dy, dx) of each block to channel (dy * block + dx) * C + c; NHWC."""
    n, height, width, channels = x.shape
    result = np.empty((n, height // block, width // block, block * block * channels), x.dtype)
    for dy in range(block):
        for dx in range(block):
            first = (dy * block + dx) * channels
            result[..., first : first + channels] = x[:, dy::block, dx::block]
    return result


def depth_to_space(x: Array, block: int, column_first: bool) -> Array:
    """Move channels to pixels (dy, dx) of each block; NHWC.

    The channel is (dy * block + dx) * C + c, or c * block^2 + dy * block + dx.
    """
    n, height, width, channels = x.shape
    rest = channels // block**2
    result = np.empty((n, height * block, width * block, rest), x.dtype)
    for dy in range(block):
        for dx in range(block):
            for c in range(rest):
                place = dy * block + dx
                source = c * block**2 + place if column_first else place * rest + c
                result[:, dy::block, dx::block, c] = x[..., source]
    return result


def moved_case(
    descriptor: Descriptor, moved: Callable[[Array], Array], parameters: Parameters, dtype: DType, rng: np.random.Generator
) -> Case | None:
    """Make a case of a layer that moves elements as `moved` moves those of an NHWC image.

    The result is None if it cannot be quantized.
    """
    how, layout = parameters["quantization"], DataLayout(parameters["layout"])
    if not carries(how, dtype):
        return None
    x = samples.anything(dtype, [parameters[name] for name in ("batch", "height", "width", "channels")], rng)
    feed = Feed(laid_out(x, layout), dtype=dtype, quantization=marked(how))
    return layer_case(descriptor, [feed], laid_out(moved(x), layout))
