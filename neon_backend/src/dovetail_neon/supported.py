"""Which layers CpuAcc takes, and why not the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail import DType, Layer, Support

from .functions import OPERATIONS, function_of, function_of_layer
from .fusion.transposed import refusal as transposing
from .moved import MOVEMENT_RULES
from .normalized import NORMALIZATION_RULES
from .quantized import CONVERSION_RULES, QUANTIZED_RULES, is_quantized
from .resampling import refusal as resizing

_MOST_AXES = 8
"""NEON_MOST_AXES of csrc/interface/elementwise.h."""
_MOST_MATRIX_AXES = 32
"""Of the operands' batches NumPy finds the common shape, which it does for so many axes."""


_PACKED = {"dovetail.Convolution2d", "dovetail.TransposeConvolution2d", "dovetail.FullyConnected", "dovetail.MatMul"}
"""Kinds whose constant weights are packed, and multiplied by tiles that do not look whether the run should end."""
_MAX_PRODUCTS = 1 << 25
"""Products that such a tile sums up, of 64 bytes of packed weights each: a tenth of a second."""


def check(layer: Layer) -> Support:
    """Say whether a layer can be run."""
    quantized = is_quantized(layer)
    rule = (QUANTIZED_RULES if quantized else RULES).get(layer.kind)
    if rule is None:
        return Support.no("kind", f"CpuAcc has no kernel for {layer.kind}")
    refusal = None if quantized or layer.kind in ANY_TYPE else _computes_in_float32(layer)
    if refusal is None:
        refusal = rule(layer)
    if refusal is None and layer.kind in _PACKED:
        refusal = _long_sums(layer)
    return Support.yes() if refusal is None else refusal


def _computes_in_float32(layer: Layer) -> Support | None:
    for index, info in enumerate(layer.input_infos):
        if info is not None and info.dtype is not DType.FLOAT32:
            names = layer.descriptor.input_names
            name = names[index % len(names)]
            return Support.no("dtype", f"input {name!r} is {info.dtype}; CpuAcc computes this in float32", name)
    return None


def _activation(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if function_of(d.activation, d.activation_alpha, d.activation_beta) is None:
        return Support.no("attribute", f"activation {d.activation} is not fused by CpuAcc", "activation")
    return None


def _long_sums(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    results = layer.output.known_info.elements
    products = d.macs(layer.input_infos, [layer.output.known_info]) // max(results, 1)
    if products <= _MAX_PRODUCTS or layer.constant(1) is None:
        return None
    name = d.input_names[1]
    return Support.no(
        "shape",
        f"each result sums {products} products; at most {_MAX_PRODUCTS} are summed without a look at the deadline",
        name,
    )


def _constant_weights(layer: Layer, names: tuple[str, ...]) -> Support | None:
    for index in range(1, len(layer.inputs)):
        if layer.inputs[index].source is not None and layer.constant(index) is None:
            name = names[index]
            return Support.no("attribute", f"input {name!r} is computed; CpuAcc packs {name} when a network is loaded", name)
    return None


def _convolution(layer: Layer) -> Support | None:
    refusal = _constant_weights(layer, layer.descriptor.input_names)
    return _activation(layer) if refusal is None else refusal  # a refusal is false: `or` would lose it


def _transposed(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.groups > 1:
        return Support.no("attribute", f"{d.groups} groups are not implemented; one is", "groups")
    refusal = _convolution(layer)
    return transposing(layer) if refusal is None else refusal


def _pooling(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.function == "lp":
        return Support.no("attribute", "function lp is not implemented; max and average are", "function")
    return None


def _global_pooling(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    info = layer.input_infos[0]
    if d.function != "average":
        return Support.no("attribute", f"function {d.function} is not implemented; average is", "function")
    if info is None or info.rank != 4:
        return Support.no("shape", "input is not of rank 4", "input")
    return None


def _binary(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.operation not in OPERATIONS:
        known = ", ".join(OPERATIONS[:-1])
        return Support.no("attribute", f"operation {d.operation} is not implemented; {known} are", "operation")
    refusal = _broadcast(layer)
    return _activation(layer) if refusal is None else refusal


def _broadcast(layer: Layer) -> Support | None:
    """Refuse operands whose axes, neighbours that are read or repeated alike being one, are too many for the kernels."""
    result = layer.output.known_info.sizes
    if len(result) <= _MOST_AXES:
        return None
    shapes = [info.sizes for info in layer.input_infos if info is not None]
    padded = [(1,) * (len(result) - len(shape)) + shape for shape in shapes]
    walked = [tuple(own == 1 for own in axis) for size, *axis in zip(result, *padded, strict=True) if size != 1]
    merged = sum(1 for before, here in zip([None, *walked], walked, strict=False) if before != here)
    if merged <= _MOST_AXES:
        return None
    return Support.no("shape", f"the operands are broadcast along {merged} axes; {_MOST_AXES} are implemented", "input")


def _product(layer: Layer) -> Support | None:
    rank = layer.output.known_info.rank
    if rank <= _MOST_MATRIX_AXES:
        return None
    return Support.no("shape", f"matrices of {rank} axes are not implemented; up to {_MOST_MATRIX_AXES} are", "input")


def _function(layer: Layer) -> Support | None:
    if function_of_layer(layer.descriptor) is None:
        d: Any = layer.descriptor
        name = "function" if hasattr(d, "function") else "operation"
        return Support.no("attribute", f"{name} {getattr(d, name)} is not implemented", name)
    return None


def _layer_normalization(layer: Layer) -> Support | None:
    return _constant_weights(layer, layer.descriptor.input_names)


ANY_TYPE = MOVEMENT_RULES.keys() | CONVERSION_RULES.keys()
"""Kinds whose rules look at types themselves."""

RULES: dict[str, Callable[[Layer], Support | None]] = {
    "dovetail.Activation": _function,
    "dovetail.ElementwiseUnary": _function,
    "dovetail.Convolution2d": _convolution,
    "dovetail.DepthwiseConvolution2d": _convolution,
    "dovetail.TransposeConvolution2d": _transposed,
    "dovetail.FullyConnected": _convolution,
    "dovetail.MatMul": _product,
    "dovetail.Pooling2d": _pooling,
    "dovetail.GlobalPooling": _global_pooling,
    "dovetail.ElementwiseBinary": _binary,
    "dovetail.LayerNormalization": _layer_normalization,
    "dovetail.Resize": resizing,
    "dovetail.Softmax": lambda layer: None,
    "dovetail.Prelu": _broadcast,
    **CONVERSION_RULES,
    **MOVEMENT_RULES,
    **NORMALIZATION_RULES,
}
