"""Functions of elements, with broadcast operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer
from dovetail.graph.tensor import TensorInfo
from dovetail.layers import BinaryOperation

from ..driver.arguments import Argument, ConstantArray, Input
from ..kernels import Alias, Kernels, Work
from .chains import Statement, chain
from .functions import activation, binary, cast, clamp_of_integers, comparison, unary


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of an elementwise layer."""
    info = layer.output.known_info
    operands = [(argument(layer, index), input_info(layer, index)) for index in range(len(layer.inputs))]
    function, parameters = function_of(layer)
    statement = Statement(function, parameters, tuple(range(len(operands))), info.dtype)
    return Work((chain(kernels, [statement], operands, info),), aliases=overwritten(layer))


def input_info(layer: Layer, index: int) -> TensorInfo:
    """Return what is known of an input that is connected."""
    info = layer.input_infos[index]
    assert info is not None
    return info


def argument(layer: Layer, index: int) -> Argument:
    """Return an input of a layer as an argument: a constant is brought to the device once."""
    constant = layer.constant(index)
    return Input(index) if constant is None else ConstantArray(constant)


def reals(layer: Layer, index: int) -> npt.NDArray[Any] | None:
    """Return the value of a constant input, of bfloat16 as float32; None: it is not constant."""
    values, info = layer.constant(index), layer.input_infos[index] if index < len(layer.input_infos) else None
    if values is None or info is None or info.dtype is not DType.BFLOAT16:
        return values
    return (values.astype(np.uint32) << 16).view(np.float32)


def in_place(layer: Layer) -> tuple[Alias, ...]:
    """Return the alias of a layer that may write where its first input lies."""
    return () if layer.constant(0) is not None else (Alias("in place"),)


def overwritten(layer: Layer) -> tuple[Alias, ...]:
    """Return the aliases of a layer that may write where an input as large as its output lies."""
    info = layer.output.known_info
    return tuple(
        Alias("in place", 0, index)
        for index in range(len(layer.inputs))
        if layer.constant(index) is None
        and (input_info(layer, index).sizes, input_info(layer, index).dtype) == (info.sizes, info.dtype)
    )


def _square(layer: Layer) -> str:
    """Return what the square of `v` is; empty where a layer is none. Drivers are slow at powers."""
    descriptor: Any = layer.descriptor
    exponent = reals(layer, 1)
    if descriptor.operation is not BinaryOperation.POW or exponent is None or exponent.size != 1:
        return ""
    return "((v) * (v))" if exponent.reshape(-1)[0] == 2 else ""


def function_of(layer: Layer) -> tuple[str, str]:
    """Return what an elementwise layer computes, in OpenCL C, and the names of its operands."""
    descriptor: Any = layer.descriptor
    dtype = input_info(layer, 0).dtype
    match layer.kind.removeprefix("dovetail."):
        case "Activation":
            if dtype.is_integer:
                return clamp_of_integers(descriptor.function, descriptor.alpha, descriptor.beta, dtype), "v"
            return activation(descriptor.function, descriptor.alpha, descriptor.beta), "v"
        case "Prelu":
            return "((v) < 0 ? (v) * (w) : (v))" if dtype.is_integer else "prelu(v, w)", "v, w"
        case "ElementwiseUnary":
            return unary(descriptor.operation, dtype), "v"
        case "ElementwiseBinary":
            of_two = _square(layer) or binary(descriptor.operation, dtype)
            if dtype.is_integer and descriptor.activation is not None:
                alpha, beta = descriptor.activation_alpha, descriptor.activation_beta
                return clamp_of_integers(descriptor.activation, alpha, beta, dtype, of_two), "v, w"
            return activation(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, of_two), "v, w"
        case "Comparison":
            return comparison(descriptor.operation), "v, w"
        case "Where":
            return "((u) != 0 ? (v) : (w))", "u, v, w"
    return cast(dtype, descriptor.dtype), "v"
