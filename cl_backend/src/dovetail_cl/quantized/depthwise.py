"""Quantized convolutions of single channels on a CPU, in images with channels last."""

from __future__ import annotations

import numpy as np

from dovetail import Layer

from ..convolution.geometry import Geometry
from ..convolution.tiles import UNITS_EACH, is_channels_last, vector_of
from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..kernels import Kernels, Work
from .scaling import Scaling
from .terms import Terms

_ROWS = 8
"""Pixels that are summed up together; ROWS of the source."""
_BLOCK = 8 * _ROWS
"""Pixels of a row whose terms are made together."""
_MAX_REACH = 1024
"""Columns that such a block sees."""
_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = ("groups", "stacks", "block", "reach", "chunk", "chunks", "units", "scratch")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
    + [("zero", np.int32)]
)


def takes(geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is one of single channels."""
    if (geometry.channels, geometry.filters, geometry.divide) != (1, 1, (1, 1)) or min(geometry.between) < 1:
        return False
    return is_channels_last(geometry) and geometry.groups >= vector_of(kernels) and _reach(geometry) <= _MAX_REACH


def _reach(geometry: Geometry) -> int:
    block = min(_BLOCK, -(-geometry.out_size[1] // _ROWS) * _ROWS)
    return (block - 1) * geometry.stride[1] + (geometry.taps[1] - 1) * geometry.between[1] + 1


def create(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> Work:
    """Return the work of a convolution with constant weights that `takes` says yes to."""
    terms = Terms.of(layer, geometry, scaling, kernels)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "groups", *_PAIRS):
        given[name] = getattr(geometry, name)
    vector, (height, width) = vector_of(kernels), geometry.taps
    given["zero"] = scaling.zeros[0]
    given["stacks"] = stacks = -(-height // terms.factors)
    given["block"], given["reach"] = _BLOCK, _reach(geometry)
    given["scratch"] = room = stacks * int(given["reach"]) + 1
    weights = np.zeros((geometry.groups, stacks * terms.factors, width), terms.dtype)
    weights[:, :height] = terms.weights.reshape(geometry.groups, height, width)
    # [stack, column, channel, factor]
    weights = np.ascontiguousarray(weights.reshape(-1, stacks, terms.factors, width).transpose(1, 3, 0, 2))
    rows, parts = geometry.batch * geometry.out_size[0], -(-geometry.groups // vector)
    wanted = -(-UNITS_EACH * kernels.compute_units // rows)
    given["chunk"] = max(1, parts // wanted) * vector
    given["chunks"] = -(-geometry.groups // int(given["chunk"]))
    given["units"] = rows * given["chunks"]
    rows_of_stack = min(max(height, 3), terms.factors)
    kernel = kernels.get(f"{terms.files} quantized/depthwise.cl", "convolve", HEIGHT=rows_of_stack, **terms.defined)
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    constants = ConstantArray(weights), ConstantArray(terms.bias.reshape(-1))
    arguments = (Input(), *constants, Scratch(), Output(), given, *terms.arguments)
    return Work((Launch(kernel, arguments, (items,), (1,)),), items * room * vector * 4)
