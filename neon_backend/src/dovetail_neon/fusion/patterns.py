"""Functions of one element that models spell out in several layers."""

from __future__ import annotations

import math

from dovetail import Constant, Layer, SubgraphView
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import (
    Activation,
    ActivationFunction,
    BinaryOperation,
    ElementwiseBinary,
    ElementwiseUnary,
    UnaryOperation,
)

from ..elementwise.functions import Function, function_of, function_of_layer


class Applied(NamedTuple):
    """A function applied by `layers` from `input` to `output`; nothing else reads between."""

    input: OutputSlot
    output: OutputSlot
    function: Function
    layers: tuple[Layer, ...]


def applied_functions(view: SubgraphView) -> dict[OutputSlot, Applied]:
    """Find all applications in a part of a graph, by the slot that they compute.

    A larger pattern wins over those in it.
    """
    found: dict[OutputSlot, Applied] = {}
    for layer in view.layers:
        if not all(slot.known_info.dtype.is_float for slot in layer.outputs):
            continue
        matches = (_gelu(layer, view), _swish(layer, view), _alone(layer))
        match = next((match for match in matches if match is not None and _keeps_shape(match)), None)
        if match is not None:
            found[match.output] = match
    inner = {layer for match in found.values() if len(match.layers) > 1 for layer in match.layers[:-1]}
    return {slot: match for slot, match in found.items() if match.layers[-1] not in inner}


def operands(layer: Layer) -> tuple[OutputSlot | None, OutputSlot | None]:
    """The two inputs of a binary layer."""
    return layer.inputs[0].source, layer.inputs[1].source


def is_binary(layer: Layer | None, operation: BinaryOperation) -> bool:
    """True for a binary operation with no activation of its own."""
    return (
        layer is not None
        and isinstance(layer.descriptor, ElementwiseBinary)
        and layer.descriptor.operation is operation
        and layer.descriptor.activation is None
    )


def scalar(slot: OutputSlot | None) -> float | None:
    """Value of a constant of one element."""
    descriptor = None if slot is None else slot.layer.descriptor
    if not isinstance(descriptor, Constant) or descriptor.value.size != 1 or descriptor.value.dtype.kind != "f":
        return None
    return float(descriptor.value.reshape(-1)[0])


def _keeps_shape(match: Applied) -> bool:
    """Return False where an operand, or a one-element constant of higher rank, widens the other."""
    sizes = match.input.known_info.sizes
    return all(layer.output.known_info.sizes == sizes for layer in match.layers)


def _alone(layer: Layer) -> Applied | None:
    descriptor, source = layer.descriptor, layer.inputs[0].source if layer.inputs else None
    function = function_of_layer(descriptor)
    if source is None:
        return None
    return None if function is None else Applied(source, layer.output, function, (layer,))


def _swish(layer: Layer, view: SubgraphView) -> Applied | None:
    """x * sigmoid(x)."""
    if not is_binary(layer, BinaryOperation.MUL):
        return None
    for x, gate in (operands(layer), operands(layer)[::-1]):
        if x is None or gate is None or len(gate.consumers) != 1 or gate.layer not in view:
            continue
        inner = gate.layer
        if (
            isinstance(inner.descriptor, Activation)
            and inner.descriptor.function is ActivationFunction.SIGMOID
            and inner.inputs[0].source is x
        ):
            function = function_of(ActivationFunction.SWISH, 1.0)
            return None if function is None else Applied(x, layer.output, function, (inner, layer))
    return None


def _constant_operand(layer: Layer | None, operation: BinaryOperation, value: float) -> OutputSlot | None:
    """The other operand of a binary layer that has this constant as one operand."""
    if layer is None or not is_binary(layer, operation):
        return None
    for x, constant in (operands(layer), operands(layer)[::-1]):
        found = scalar(constant)
        if x is not None and found is not None and math.isclose(found, value, rel_tol=1e-5):
            return x
    return None


def _gelu(layer: Layer, view: SubgraphView) -> Applied | None:
    """x * (1 + erf(x / sqrt 2)) * 0.5, in the orders that exporters write."""
    if not is_binary(layer, BinaryOperation.MUL):
        return None
    half = _constant_operand(layer, BinaryOperation.MUL, 0.5)
    candidates = []
    if half is not None:  # (x * (1 + erf)) * 0.5
        product = half.layer
        if is_binary(product, BinaryOperation.MUL):
            candidates += [(x, gate, (product, layer)) for x, gate in (operands(product), operands(product)[::-1])]
    else:  # (x * 0.5) * (1 + erf), x * (0.5 * (1 + erf))
        for a, b in (operands(layer), operands(layer)[::-1]):
            if a is None or b is None:
                continue
            x = _constant_operand(a.layer, BinaryOperation.MUL, 0.5)
            if x is not None:
                candidates += [(x, b, (a.layer, layer)), (b, x, (a.layer, layer))]
    for x, gate, outer in candidates:
        if x is None or gate is None:
            continue
        erf = _constant_operand(gate.layer, BinaryOperation.ADD, 1.0)
        if erf is None or not isinstance(erf.layer.descriptor, ElementwiseUnary):
            continue
        if erf.layer.descriptor.operation is not UnaryOperation.ERF:
            continue
        scaled = erf.layer.inputs[0].source
        origin = None
        if scaled is not None:
            origin = _constant_operand(scaled.layer, BinaryOperation.DIV, math.sqrt(2.0))
            origin = origin or _constant_operand(scaled.layer, BinaryOperation.MUL, math.sqrt(0.5))
        if scaled is None or origin is not x or (scaled.layer.inputs[0].source is not x and _is_division(scaled.layer)):
            continue
        layers = (scaled.layer, erf.layer, gate.layer, *outer)
        if all(inner in view for inner in layers) and all(
            consumer.layer in layers for inner in layers[:-1] for consumer in inner.output.consumers
        ):
            function = function_of(ActivationFunction.GELU)
            return None if function is None else Applied(x, layer.output, function, layers)
    return None


def _is_division(layer: Layer) -> bool:
    return is_binary(layer, BinaryOperation.DIV)
