"""Pooling over windows, and over all of an image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DataLayout, Layer
from dovetail.layers import PoolingFunction

from ..driver.arguments import ConstantArray, Launch, Output
from ..elementwise import argument, input_info
from ..elementwise.functions import literal
from ..kernels import TYPES, Kernels, Work, whole_type
from ..lines import SOURCE, lanes_of
from ..reduction.reducing import FUNCTIONS, Function, reduce

_WINDOWS = np.dtype(
    [
        ("planes", np.uint32),
        ("inner", np.uint32),
        *((name, np.int32, 2) for name in ("in", "out", "size", "stride", "before", "dilation", "end")),
        ("pad", np.int32),
    ]
)
_SPAN = 256
"""Elements of the row that `rows.cl` makes of the columns of windows."""
_NAMES = {PoolingFunction.MAX: "max", PoolingFunction.AVERAGE: "mean"}


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that pools."""
    return _images(layer, kernels) if layer.kind == "dovetail.GlobalPooling" else _windows(layer, kernels)


def _norm(p: int, type_: str = "V") -> tuple[str, str]:
    """Return what a p-norm makes of each element `v`, and of their sum."""
    if p == 1:
        return "fabs(v)", "(v)"
    if p == 2:
        return "((v) * (v))", "sqrt(v)"
    return f"pow(fabs(v), ({type_}){literal(p)})", f"pow(v, ({type_}){literal(1 / p)})"


def _images(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    axes = descriptor.layout.spatial_axes(info.rank)
    if descriptor.function is PoolingFunction.LP:
        function = FUNCTIONS[f"l{descriptor.p}"] if descriptor.p <= 2 else Function(*_norm(descriptor.p), is_norm=True)
    elif info.dtype.is_integer and descriptor.function is PoolingFunction.AVERAGE:
        function = FUNCTIONS["rounded_mean"]
    else:
        function = FUNCTIONS[_NAMES[descriptor.function]]
    return reduce(kernels, argument(layer, 0), info.dtype, info.sizes, axes, function)


def _windows(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    given = _struct(descriptor, info.sizes, layer.output.known_info.sizes)
    given["pad"] = info.quantization.zero_point[0] if info.quantization is not None else 0
    is_max, is_float = descriptor.function is PoolingFunction.MAX, info.dtype.is_float
    # Of no integers the sum is 0. LLVM 18 ends the process over another choice with this division.
    whole_mean = "((v) + ((v) > 0 ? (T)((n) / 2) : -(T)((n) / 2))) / (T)max(n, 1)"
    mean = "((n) ? (v) / (float)(n) : (T)0)" if is_float else whole_mean
    each, last = "(v)", "(v)" if is_max else mean
    if descriptor.function is PoolingFunction.LP:
        each, last = _norm(descriptor.p, "T")
    defined = {
        "ROWS": 0,
        "GROUP": 0,
        "C": "float" if is_float else whole_type(info.dtype),
        "IS_FLOAT": int(is_float),
        "X": TYPES[info.dtype],
        "NOTHING": "(-INFINITY)" if is_float else f"{TYPES[info.dtype].upper()}_MIN",
        "SUMS": int(not is_max),
        "MAP(v, T)": each,
        "FINISH(v, n, T)": last,
        "COUNT_PADDING": int(descriptor.count_padding),
        "NORM": int(descriptor.function is PoolingFunction.LP and descriptor.p > 1),
    }
    lanes = lanes_of(kernels)
    taps = math.prod(descriptor.size)
    rows = int(given["planes"]) * int(given["out"][0])
    stride = descriptor.stride[1]
    chunk = 4 * lanes if stride <= 2 else lanes
    reach = (descriptor.size[1] - 1) * descriptor.dilation[1] + 1
    is_summed_as_whole = not is_float and not is_max  # padding counts, and means are rounded once
    if kernels.is_cpu and not is_summed_as_whole and given["inner"] == 1 and (chunk - 1) * stride + reach <= _SPAN:
        is_counted = descriptor.function is PoolingFunction.AVERAGE
        defined |= {"LANES": lanes, "STRIDE": stride if stride <= 2 else 0, "CHUNK": chunk, "SPAN": _SPAN}
        kernel = kernels.get(f"{SOURCE} pooling/windows.cl pooling/rows.cl", "pool_rows", **defined, COUNTED=int(is_counted))
        counts = (ConstantArray(_counts(given, descriptor.count_padding)),) if is_counted else ()
        sizes = kernels.each(rows, least=4096 // max(taps * int(given["out"][1]), 1) + 1)
        return Work((Launch(kernel, (argument(layer, 0), *counts, Output(), given), *sizes),))
    inner = int(given["inner"])
    lanes = lanes if kernels.is_cpu and inner >= 4 else 1
    kernel = kernels.get(f"{SOURCE} pooling/windows.cl pooling/lanes.cl", "pool", **defined, LANES=lanes)
    pixels = int(given["out"][1]) * inner
    sizes = kernels.each(rows, least=4096 // max(taps * pixels, 1) + 1) if kernels.is_cpu else kernels.each(rows * pixels)
    return Work((Launch(kernel, (argument(layer, 0), Output(), given), *sizes),))


def _counts(given: np.ndarray[Any, Any], is_padded: bool) -> np.ndarray[Any, Any]:
    """Return over how many elements along a row each window is an average."""
    size, stride, before, dilation, width, end, out = (
        int(given[name][1]) for name in ("size", "stride", "before", "dilation", "in", "end", "out")
    )
    origins = np.arange(out) * stride - before
    behind, ahead = (np.clip(-(-(limit - origins) // dilation), 0, size) for limit in (end if is_padded else width, 0))
    return (behind if is_padded else behind - ahead).astype(np.float32)


def _struct(descriptor: Any, sizes: tuple[int, ...], result: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the windows as kernels take them."""
    given = np.zeros((), _WINDOWS)
    axes = descriptor.layout.spatial_axes()
    is_nchw = descriptor.layout is DataLayout.NCHW
    given["planes"], given["inner"] = (sizes[0] * sizes[1], 1) if is_nchw else (sizes[0], sizes[3])
    given["in"], given["out"] = [sizes[axis] for axis in axes], [result[axis] for axis in axes]
    given["size"], given["stride"], given["dilation"] = descriptor.size, descriptor.stride, descriptor.dilation
    given["before"] = descriptor.padding[:2]
    given["end"] = [sizes[axis] + after for axis, after in zip(axes, descriptor.padding[2:], strict=True)]
    return given
