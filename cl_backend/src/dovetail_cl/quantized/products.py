"""Convolutions, and products with matrices, of quantized tensors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected, TransposeConvolution2d

from ..convolution import direct, tiles
from ..convolution.geometry import Geometry, geometry_of
from ..convolution.images import root_of
from ..convolution.tiles import is_channels_last
from ..driver.arguments import Argument, ConstantArray, Launch
from ..elementwise import input_info
from ..elementwise.epilogue import NONE
from ..kernels import TYPES, Kernels, Work
from ..matrices import whole
from ..matrices.geometry import matmul
from . import depthwise, groups
from .arithmetic import SOURCE
from .scaling import Scaling, scaling_of
from .terms import Terms

_MAX_PHASES = 16


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a product of quantized tensors."""
    if isinstance(root_of(layer), Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d):
        geometry = geometry_of(layer)
    elif isinstance(layer.descriptor, FullyConnected):
        geometry = _rows(layer)
    else:
        return _matmul(layer, kernels)
    scaling = scaling_of(layer, geometry.groups * geometry.filters)
    is_constant = all(layer.constant(i) is not None for i, info in enumerate(layer.input_infos) if i and info is not None)
    is_small = geometry.is_narrow and math.prod(geometry.divide) <= _MAX_PHASES
    if kernels.is_cpu and is_constant and is_small and geometry.results and is_channels_last(geometry):
        if depthwise.takes(geometry, kernels):
            return depthwise.create(layer, geometry, scaling, kernels)
        parts = [_tiles(layer, phase, scaling, kernels) for phase in geometry.phases()]
        return Work(tuple(launch for launch, _ in parts), max(scratch for _, scratch in parts))
    if not kernels.is_cpu and is_constant and is_small and geometry.results and groups.takes(layer, geometry, scaling, kernels):
        return groups.create(layer, geometry, scaling, kernels)
    return direct.summed(layer, geometry, kernels, *_singles(layer, scaling))


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
    """Return the launch for a phase of a product on a CPU, and the bytes of its scratch."""
    terms = Terms.of(layer, geometry, scaling, kernels)
    is_whole = terms.factors == 4 and not geometry.channels % 4 and not geometry.in_at[3] % 4
    sums = tiles.Sums(
        f"{terms.files} convolution/registers.cl",
        {**terms.defined, "SEPARABLE": 0},
        input_info(layer, 0).elements,
        (),
        (),
        terms.arguments,
        partial(_packed, terms),
        is_in_place=geometry.is_pointwise and is_whole,
        taps=0,
        factors=terms.factors,
        size=4 // terms.factors,
        chunk=terms.chunk,
        outside=terms.outside,
    )
    return tiles.launched(geometry, kernels, sums)


def _packed(terms: Terms, parts: int, width: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return weights [group, part, term, filter, factor] and bias [group, part, filter], padded."""
    groups, filters, depth = terms.weights.shape
    count = -(-depth // terms.factors)
    padded = np.zeros((groups, parts * width, count * terms.factors), terms.dtype)
    padded[:, :filters, :depth] = terms.weights
    packed = padded.reshape(groups, parts, width, count, terms.factors).swapaxes(2, 3)
    bias = np.zeros((groups, parts * width), np.int32)
    bias[:, :filters] = terms.bias
    return np.ascontiguousarray(packed), bias


def _singles(layer: Layer, scaling: Scaling) -> tuple[str, dict[str, Any], tuple[Argument, ...]]:
    """Return what makes one result at a time: sources, what is defined, and the last arguments."""
    numbers = np.array((*scaling.zeros, *scaling.bounds), np.int32)
    return (
        f"{SOURCE} quantized/finishing.cl quantized/singles.cl",
        {"T": TYPES[input_info(layer, 0).dtype], "W": TYPES[input_info(layer, 1).dtype]},
        (ConstantArray(scaling.weight_zeros), ConstantArray(scaling.factors), numbers),
    )


def _matmul(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a product of matrices: by tiles if the right one is constant and alone."""
    product = matmul(layer, NONE)
    a, b = product.a, product.b
    scaling = scaling_of(layer, max(product.columns, 1))
    if b.values is not None and not product.batch and a.depth == 1 and product.rows * product.columns:
        geometry = _lines(product.rows, product.columns, product.depth, a.line, (0, b.line, b.depth, 0, 0))
        if kernels.is_cpu:
            launch, scratch = _tiles(layer, geometry, scaling, kernels)
            return Work((launch,), scratch)
        if groups.takes(layer, geometry, scaling, kernels):
            return groups.create(layer, geometry, scaling, kernels)
    files, defined, last = _singles(layer, scaling)
    return whole.summed(product, kernels, files, {"W": defined["W"]}, last)
