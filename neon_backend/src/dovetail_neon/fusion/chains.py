"""What one kernel does together: a product or convolution, its bias, an addition, a function."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import Constant, Layer, SubgraphView
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import Record
from dovetail.layers import BinaryOperation, ElementwiseBinary

from ..arrays import Floats
from ..elementwise.functions import IDENTITY, Function, function_of
from .patterns import Applied, applied_functions, operands

MATMUL = "dovetail.MatMul"
OF_MATRICES = frozenset({MATMUL, "dovetail.FullyConnected"})
ADDING = OF_MATRICES | {"dovetail.Convolution2d"}
"""Kinds to whose sums the kernels can add something else."""
PRODUCTS = ADDING | {"dovetail.DepthwiseConvolution2d", "dovetail.TransposeConvolution2d"}
"""Kinds from which chains grow; by name, so that their families need not be imported."""


class Chain(Record):
    """Layers that become one.

    Attributes:
        root: The product or convolution.
        layers: All that is absorbed, the root first, the one that computes `output` last.
        output: What comes out.
        bias: One per filter, or None.
        adds: What is added before the function, of the shape of the result, or None.
        function: Applied last.
    """

    root: Layer
    layers: list[Layer]
    output: OutputSlot
    bias: Floats | None
    adds: OutputSlot | None = None
    function: Function = IDENTITY


def find_chains(view: SubgraphView, apart: frozenset[Layer]) -> tuple[dict[Layer, Chain], dict[Layer, Applied]]:
    """Return the chains, and the function applications that are left, each by their last layer.

    Layers that are `apart` belong to something larger already.
    """
    functions = {slot: match for slot, match in applied_functions(view).items() if apart.isdisjoint(match.layers)}
    by_input: dict[OutputSlot, list[Applied]] = {}
    for match in functions.values():
        by_input.setdefault(match.input, []).append(match)
    chains: dict[Layer, Chain] = {}
    taken: set[Layer] = set(apart)
    for layer in reversed(view.layers):  # so that of two convolutions that are added the later one takes the addition
        chain = _grow(layer, view, by_input, taken)
        if chain is not None:
            chains[chain.layers[-1]] = chain
            taken.update(chain.layers)
    left = {match.layers[-1]: match for match in functions.values() if not taken.intersection(match.layers)}
    return chains, left


def constant_of(layer: Layer, index: int) -> Floats | None:
    """Value of a constant float32 input."""
    value = layer.constant(index) if index < len(layer.inputs) else None
    return None if value is None or value.dtype != np.float32 else value


def is_product_of_rows(layer: Layer) -> bool:
    """Tell whether a matrix product's second operand is one constant matrix for all rows."""
    descriptor: Any = layer.descriptor
    if layer.kind != MATMUL:
        return False
    weights, a = constant_of(layer, 1), layer.inputs[0].info
    if weights is None or a is None:
        return False
    return weights.ndim == 2 and a.rank >= 2 and not descriptor.transpose_a


def _grow(root: Layer, view: SubgraphView, functions: dict[OutputSlot, list[Applied]], taken: set[Layer]) -> Chain | None:
    descriptor: Any = root.descriptor
    if root.kind not in PRODUCTS:
        return None
    weights = constant_of(root, 1)
    if root in taken or weights is None or (root.kind == MATMUL and not is_product_of_rows(root)):
        return None
    function = (
        IDENTITY
        if root.kind == MATMUL
        else function_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)
    )
    if function is None:
        return None
    chain = Chain(root, [root], root.output, constant_of(root, 2), None, function)
    may_add = root.kind in ADDING
    while chain.function == IDENTITY and all(consumer.layer in view for consumer in chain.output.consumers):
        if may_add and len(chain.output.consumers) == 1:
            follower = chain.output.consumers[0].layer
            if follower not in taken and _absorb_addition(chain, follower):
                continue
        match = _function_after(chain.output, functions)
        if match is None or taken.intersection(match.layers):
            break
        chain.layers.extend(match.layers)
        chain.output, chain.function = match.output, match.function
    return chain


def _absorb_addition(chain: Chain, addition: Layer) -> bool:
    descriptor = addition.descriptor
    if not isinstance(descriptor, ElementwiseBinary) or descriptor.operation is not BinaryOperation.ADD:
        return False
    function = function_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)
    if function is None:
        return False
    a, b = operands(addition)
    other = b if a is chain.output else a
    if other is None or other is chain.output:
        return False
    shape = chain.output.known_info.sizes
    if isinstance(other.layer.descriptor, Constant):
        value = other.layer.descriptor.value
        # A vector along the last axis is a bias of a matrix product; after a residual it would be
        # added in another order.
        if chain.root.kind not in OF_MATRICES or chain.bias is not None or chain.adds is not None:
            return False
        if value.dtype != np.float32 or value.shape != (shape[-1],):
            return False
        chain.bias = value
    else:
        if chain.adds is not None or other.known_info.sizes != shape or addition.output.known_info.sizes != shape:
            return False
        chain.adds = other
    chain.layers.append(addition)
    chain.output, chain.function = addition.output, function
    return True


def _function_after(slot: OutputSlot, functions: dict[OutputSlot, list[Applied]]) -> Applied | None:
    """The function that all readers of a slot belong to, if it is one."""
    for match in functions.get(slot, ()):
        if all(consumer.layer in match.layers for consumer in slot.consumers):
            return match
    return None
