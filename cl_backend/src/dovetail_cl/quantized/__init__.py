"""Layers of quantized tensors: int8 or uint8, each element of which stands for a real number."""

from __future__ import annotations

from dovetail import Layer

from ..kernels import Kernels, Work
from . import elements, products, reduction, tables

_MODULES = {
    "Convolution2d": products,
    "GpuAcc.Convolution": products,
    "DepthwiseConvolution2d": products,
    "TransposeConvolution2d": products,
    "FullyConnected": products,
    "MatMul": products,
    "Activation": tables,
    "ElementwiseUnary": tables,
    "Concat": tables,
    "Stack": tables,
    "ElementwiseBinary": elements,
    "Prelu": elements,
    "Quantize": elements,
    "Dequantize": elements,
    "Reduce": reduction,
}


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer of quantized tensors."""
    work: Work = _MODULES[layer.kind.removeprefix("dovetail.")].create(layer, kernels)
    return work
