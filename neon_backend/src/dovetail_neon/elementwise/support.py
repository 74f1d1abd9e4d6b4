"""Which elementwise layers CpuAcc takes."""

from __future__ import annotations

from typing import Any

from dovetail import DType, Layer, Support
from dovetail.layers import Activation, Cast, ElementwiseBinary, ElementwiseUnary, Prelu

from .codes import OPERATIONS
from .functions import function_of, function_of_layer

_MAX_AXES = 8
"""NEON_MOST_AXES of parameters.h."""

CAST_TYPES = (DType.BOOL, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64)
"""Types between which elements are converted."""


def fused_function(layer: Layer) -> Support | None:
    """Refuse an activation that no kernel applies to its results."""
    d: Any = layer.descriptor
    if function_of(d.activation, d.activation_alpha, d.activation_beta) is None:
        return Support.no("attribute", f"activation {d.activation} is not fused by CpuAcc", "activation")
    return None


def _binary(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.operation not in OPERATIONS:
        known = ", ".join(name for name in OPERATIONS if name != "prelu")
        return Support.no("attribute", f"operation {d.operation} is not implemented; {known} are", "operation")
    refusal = _broadcast(layer)
    return fused_function(layer) if refusal is None else refusal


def _broadcast(layer: Layer) -> Support | None:
    """Refuse operands whose axes, neighbours that are read or repeated alike being one, are too many for the kernels."""
    result = layer.output.known_info.sizes
    if len(result) <= _MAX_AXES:
        return None
    shapes = [info.sizes for info in layer.input_infos if info is not None]
    padded = [(1,) * (len(result) - len(shape)) + shape for shape in shapes]
    walked = [tuple(own == 1 for own in axis) for size, *axis in zip(result, *padded, strict=True) if size != 1]
    merged = sum(1 for before, here in zip([None, *walked], walked, strict=False) if before != here)
    if merged <= _MAX_AXES:
        return None
    return Support.no("shape", f"the operands are broadcast along {merged} axes; {_MAX_AXES} are implemented", "input")


def _function(layer: Layer) -> Support | None:
    if function_of_layer(layer.descriptor) is None:
        d: Any = layer.descriptor
        name = "function" if hasattr(d, "function") else "operation"
        return Support.no("attribute", f"{name} {getattr(d, name)} is not implemented", name)
    return None


def _cast(layer: Layer) -> Support | None:
    infos = [info for info in (*layer.input_infos, *layer.output_infos) if info is not None]
    if infos[0].dtype is not infos[1].dtype:
        for info, name in zip(infos, ("input", "output"), strict=True):
            if info.dtype not in CAST_TYPES:
                known = ", ".join(dtype.label for dtype in CAST_TYPES)
                return Support.no("dtype", f"{name} is {info.dtype}; {known} are converted", name)
    return None


SUPPORT = {
    Activation.kind: _function,
    Cast.kind: _cast,
    ElementwiseBinary.kind: _binary,
    ElementwiseUnary.kind: _function,
    Prelu.kind: _broadcast,
}
