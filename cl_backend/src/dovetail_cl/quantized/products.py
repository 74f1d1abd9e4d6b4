"""Convolutions, and products with matrices, of quantized tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected, TransposeConvolution2d

from ..convolution.geometry import Geometry, geometry_of
from ..convolution.tiles import UNITS_EACH, is_channels_last, rows_of, vector_of
from ..driver.arguments import Argument, ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import argument, input_info
from ..elementwise.epilogue import NONE
from ..kernels import TYPES, Kernels, Work
from ..matrices.geometry import matmul
from . import depthwise, groups
from .arithmetic import SOURCE
from .scaling import Scaling, scaling_of, whole_weights

_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = (
    *("out_from", "in_elements", "channels", "filters", "pixels", "depth", "terms", "line"),
    *("at_once", "blocks", "each", "splits", "units", "scratch"),
)
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
    + [(name, np.int32) for name in ("zero", "out_zero", "low", "high")]
)
_PACKED_TERMS = 1 << 16
"""Packed pixels that stay in the nearer caches while weights pass by."""
_MAX_PHASES = 16
_MIN_PRODUCTS = 1 << 15
"""Worth a work item of a CPU, one result at a time."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a product of quantized tensors."""
    if isinstance(layer.descriptor, Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d):
        geometry = geometry_of(layer)
    elif isinstance(layer.descriptor, FullyConnected):
        geometry = _rows(layer)
    else:
        return _matmul(layer, kernels)
    scaling = scaling_of(layer, geometry.groups * geometry.filters)
    is_constant = all(layer.constant(i) is not None for i, info in enumerate(layer.input_infos) if i and info is not None)
    is_small = geometry.is_narrow and math.prod(geometry.divide) <= _MAX_PHASES
    if kernels.is_cpu and is_constant and is_small and geometry.results:
        if depthwise.takes(geometry, kernels):
            return depthwise.create(layer, geometry, scaling, kernels)
        parts = [_tiles(layer, phase, scaling, kernels) for phase in geometry.phases()]
        return Work(tuple(launch for launch, _ in parts), max(scratch for _, scratch in parts))
    if is_constant and is_small and geometry.results and groups.takes(layer, geometry, scaling, kernels):
        return groups.create(layer, geometry, scaling, kernels)
    return _direct(layer, geometry, scaling, kernels)


def _rows(layer: Layer) -> Geometry:
    """Return the geometry of a fully connected layer."""
    (*rows, depth), (filters, _) = input_info(layer, 0).sizes, input_info(layer, 1).sizes
    return _lines(math.prod(rows), filters, depth, depth, (0, depth, 1, 0, 0))


def _lines(rows: int, filters: int, depth: int, line: int, weight_at: tuple[int, int, int, int, int]) -> Geometry:
    """Return rows by a matrix as a convolution of one tap, whose pixels are the rows."""
    return Geometry(
        batch=1,
        groups=1,
        channels=depth,
        filters=filters,
        in_size=(1, rows),
        out_size=(1, rows),
        taps=(1, 1),
        stride=(1, 1),
        start=(0, 0),
        between=(1, 1),
        divide=(1, 1),
        in_at=(rows * line, 1, rows * line, line),
        out_at=(rows * filters, 1, rows * filters, filters),
        weight_at=weight_at,
    )


def _tiles(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> tuple[Launch, int]:
    """Return the launch for a phase of a convolution on a CPU, and the bytes of its scratch."""
    info = input_info(layer, 0)
    vector = vector_of(kernels)
    panel, rows = 2 * vector, rows_of(vector)
    is_last = is_channels_last(geometry)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "out_from", "channels", "filters", "depth", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"] = info.elements
    (given["zero"], given["out_zero"]), (given["low"], given["high"]) = scaling.zeros, scaling.bounds
    terms = -(-geometry.depth // 2)
    line = -(-terms // 8) * 8 + 8  # whole vectors are written
    if is_last:
        pixels, parts = geometry.batch * geometry.pixels, -(-geometry.filters // panel)
        share = -(-pixels * geometry.groups // (UNITS_EACH * kernels.compute_units))
        at_once = max(1, min(_PACKED_TERMS // (rows * line), -(-share // rows))) * rows
        blocks, room = -(-pixels // at_once), at_once * line
    else:
        pixels, parts, at_once = geometry.pixels, -(-geometry.filters // rows), panel
        blocks, room = geometry.batch * -(-pixels // panel), (terms + 1) * panel
    wanted = -(-UNITS_EACH * kernels.compute_units // max(1, blocks * geometry.groups))
    each = max(1, parts // wanted)
    splits = -(-parts // each)
    units = blocks * geometry.groups * splits
    given["pixels"], given["line"], given["at_once"], given["blocks"], given["terms"] = pixels, line, at_once, blocks, terms
    given["each"], given["splits"], given["units"], given["scratch"] = each, splits, units, room
    kernel = kernels.get(
        f"{SOURCE} quantized/vectors.cl convolution/registers.cl convolution/runs.cl quantized/products.cl",
        "multiply",
        T=TYPES[info.dtype],
        VECTOR=vector,
        BY_LINES=int(is_last),
        CHANNELS_LAST=int(is_last),
    )
    width = panel if is_last else rows
    constants = [ConstantArray(_packed(layer, geometry, scaling, terms, parts, width))]
    bias = layer.constant(2)
    filters = geometry.groups * geometry.filters
    for one in (np.zeros(filters, np.int32) if bias is None else bias, scaling.factors):
        padded = np.zeros((geometry.groups, parts * width), one.dtype)
        padded[:, : geometry.filters] = one.reshape(geometry.groups, geometry.filters)
        constants.append(ConstantArray(padded))
    items = min(units, UNITS_EACH * kernels.compute_units)
    return Launch(kernel, (Input(), *constants, Scratch(), Output(), given), (items,), (1,)), items * room * 4


def _packed(layer: Layer, geometry: Geometry, scaling: Scaling, terms: int, parts: int, width: int) -> npt.NDArray[np.int16]:
    """Return weights less their zero points, [group, part, term, filter, 2]."""
    matrix = whole_weights(layer, geometry, scaling)
    padded = np.zeros((geometry.groups, parts * width, 2 * terms), np.int16)
    padded[:, : geometry.filters, : geometry.depth] = matrix
    return np.ascontiguousarray(padded.reshape(geometry.groups, parts, width, terms, 2).swapaxes(2, 3))


def _numbers(scaling: Scaling) -> npt.NDArray[np.int32]:
    """Return the numbers that all results have in common, as kernels take them."""
    return np.array((*scaling.zeros, *scaling.bounds), np.int32)


def _parameters(layer: Layer, scaling: Scaling) -> tuple[tuple[Argument, ...], dict[str, Any]]:
    """Return the arguments that make results of sums, and what is defined for them."""
    arguments = (ConstantArray(scaling.weight_zeros), ConstantArray(scaling.factors))
    defined = {"T": TYPES[input_info(layer, 0).dtype], "W": TYPES[input_info(layer, 1).dtype]}
    return (*arguments, _numbers(scaling)), defined


def _direct(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> Work:
    """Return the work of a product, one result at a time; weights and bias need not be constant."""
    positions, pairs = ("stride", "start", "between", "divide"), ("in_size", "out_size", "taps")
    numbers, strides = ("groups", "channels", "filters"), ("in_at", "out_at", "weight_at")
    position = np.int32 if geometry.is_narrow else np.int64
    struct = np.dtype(
        [(name, position, 2) for name in positions]
        + [(name, np.int32, 2) for name in pairs]
        + [(name, np.int32) for name in numbers]
        + [(name, np.int32, len(getattr(geometry, name))) for name in strides],
        align=True,
    )
    given = np.zeros((), struct)
    for name in (*positions, *pairs, *numbers, *strides):
        given[name] = getattr(geometry, name)
    is_biased = len(layer.inputs) > 2 and layer.input_infos[2] is not None
    arguments, defined = _parameters(layer, scaling)
    kernel = kernels.get(
        f"{SOURCE} quantized/finishing.cl quantized/direct.cl",
        "convolve",
        **defined,
        POSITION="int" if geometry.is_narrow else "long",
        BIASED=int(is_biased),
        DIVIDED=int(geometry.divide != (1, 1)),
        CHANNELS_LAST=int(is_channels_last(geometry)),
    )
    tensors = [argument(layer, index) for index in range(3 if is_biased else 2)]
    items, group = kernels.each(geometry.results, least=max(1, _MIN_PRODUCTS // max(geometry.depth, 1)))
    return Work((Launch(kernel, (*tensors, *arguments, Output(), given, np.uint32(geometry.results)), items, group),))


def _matmul(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a product of matrices: by tiles if the right one is constant and alone."""
    product = matmul(layer, NONE)
    a, b = product.a, product.b
    if b.values is not None and not product.batch and a.depth == 1 and product.rows * product.columns:
        geometry = _lines(product.rows, product.columns, product.depth, a.line, (0, b.line, b.depth, 0, 0))
        scaling = scaling_of(layer, product.columns)
        if kernels.is_cpu:
            launch, scratch = _tiles(layer, geometry, scaling, kernels)
            return Work((launch,), scratch)
        if groups.takes(layer, geometry, scaling, kernels):
            return groups.create(layer, geometry, scaling, kernels)
    rank = len(product.batch)
    names = ("rows", "columns", "depth", "a_line", "a_depth", "b_line", "b_depth")
    struct = [("size", np.uint32, rank + 1), ("step", np.uint32, (rank + 1, 2)), *((name, np.uint32) for name in names)]
    given = np.zeros((), np.dtype([*struct, ("b_zero", np.int32)]))
    for axis, one in enumerate(product.batch):
        given["size"][axis], given["step"][axis] = one.size, one.steps[:2]
    numbers = (product.rows, product.columns, product.depth, a.line, a.depth, b.line, b.depth)
    for name, number in zip(names, numbers, strict=True):
        given[name] = number
    scaling = scaling_of(layer, 1)
    given["b_zero"] = scaling.weight_zeros[0]
    defined = {"T": a.type, "W": b.type, "RANK": rank}
    kernel = kernels.get(f"{SOURCE} quantized/finishing.cl quantized/matrices.cl", "multiply", **defined)
    count = layer.output.known_info.elements
    items, group = kernels.each(count, least=max(1, _MIN_PRODUCTS // max(product.depth, 1)))
    numbers_of = (scaling.factors[0], _numbers(scaling))
    return Work((Launch(kernel, (a.argument, b.argument, *numbers_of, Output(), given, np.uint32(count)), items, group),))
