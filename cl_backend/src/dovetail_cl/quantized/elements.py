"""Sums, differences, products and Prelu of quantized elements; what leads to them and back."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType, Layer
from dovetail.layers import BinaryOperation, Dequantize, ElementwiseBinary, Quantize

from ..driver.arguments import ConstantArray, Launch, Output
from ..elementwise import argument, input_info, overwritten
from ..kernels import TYPES, Kernels, Work
from ..walking import broadcast, merged
from .arithmetic import SOURCE, clamp_range, scheme, single

_LANES = 16
_NAMES = {BinaryOperation.ADD: "SUM", BinaryOperation.SUB: "DIFFERENCE", BinaryOperation.MUL: "PRODUCT"}


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a function of quantized elements."""
    if isinstance(layer.descriptor, Quantize | Dequantize):
        return _converted(layer, kernels)
    infos, result = [input_info(layer, index) for index in (0, 1)], layer.output.known_info
    axes = merged(result.sizes, [broadcast(info.sizes, result.sizes) for info in infos]) or [(1, (1, 1))]
    rank = 0 if len(axes) == 1 and set(axes[0][1]) == {1} else len(axes)
    numbers = ("zero_a", "zero_b", "zero", "low", "high")
    struct = [("size", np.uint32, rank + 1), ("stride", np.uint32, (rank + 1, 2))]
    factors = ((name, np.float32) for name in ("factor_a", "factor_b"))
    given = np.zeros((), np.dtype([*struct, *((name, np.int32) for name in numbers), *factors]))
    for axis, (size, strides) in enumerate(axes[:rank]):
        given["size"][axis], given["stride"][axis] = size, strides
    zeros = [scheme(info).zero_point[0] for info in (*infos, result)]
    for name, number in zip(numbers, (*zeros, *clamp_range(layer)), strict=True):
        given[name] = number
    given["factor_a"], given["factor_b"] = single(_factors(layer))
    descriptor = layer.descriptor
    combined = _NAMES[descriptor.operation] if isinstance(descriptor, ElementwiseBinary) else "PRELU"
    kernel = kernels.get(
        f"{SOURCE} quantized/combination.cl",
        "combine",
        A=TYPES[infos[0].dtype],
        B=TYPES[infos[1].dtype],
        RANK=rank,
        LANES=_LANES if kernels.is_cpu else 4,
        **{"COMBINED(v, w)": f"{combined}(v, w)"},
    )
    count = result.elements
    items, group = kernels.each(count)
    arguments = (argument(layer, 0), argument(layer, 1), Output(), given, np.uint32(count))
    return Work((Launch(kernel, arguments, items, group),), aliases=overwritten(layer))


def _factors(layer: Layer) -> tuple[float, float]:
    """Return the factors of both operands, or of a product and nothing."""
    a, b, result = (scheme(info).scale[0] for info in (input_info(layer, 0), input_info(layer, 1), layer.output.known_info))
    if not isinstance(layer.descriptor, ElementwiseBinary):
        return a / result, a * b / result
    return (a * b / result, 0.0) if layer.descriptor.operation is BinaryOperation.MUL else (a / result, b / result)


def _converted(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of Quantize or Dequantize."""
    info, result, descriptor = input_info(layer, 0), layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Quantize | Dequantize), "it was asked before"
    quantizes = isinstance(descriptor, Quantize)
    whole, real = (result.dtype, info.dtype) if quantizes else (info.dtype, result.dtype)
    quantization = descriptor.quantization
    axis = 0 if quantization.axis is None else quantization.axis % info.rank
    count = len(quantization.scale)
    inner = max(1, math.prod(info.sizes[axis + 1 :]) if count > 1 else info.elements)
    in_which = np.float64 if real is DType.FLOAT64 else np.float32
    least = -(1 << (whole.bits - 1)) if whole.is_signed else 0
    most = least + (1 << whole.bits) - 1
    makes_bytes = quantizes and whole.bits == 8 and real is DType.FLOAT32 and count == 1
    kernel = kernels.get(
        f"{SOURCE} quantized/conversion.cl",
        "convert",
        QUANTIZES=int(quantizes),
        X=TYPES[info.dtype],
        Y=TYPES[result.dtype],
        F="double" if real is DType.FLOAT64 else "float",
        LEAST=f"({least + 1} - 1)",
        MOST=f"{float(most)!r}{'' if real is DType.FLOAT64 else 'f'}",
        PER_AXIS=int(count > 1),
        GREATEST=str(most),
        LANES=(_LANES if kernels.is_cpu else 4) if makes_bytes else 0,
    )
    items, group = kernels.each(info.elements)
    constants = (
        ConstantArray(np.array(quantization.scale, in_which)),
        ConstantArray(np.array(quantization.zero_point, np.int64)),
    )
    given = np.array((inner, count), np.uint32)
    arguments = (argument(layer, 0), *constants, Output(), given, np.uint32(info.elements))
    return Work((Launch(kernel, arguments, items, group),))
