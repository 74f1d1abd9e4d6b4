"""Products of one left side with several constant right sides, side by side in one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer, Network, PrivateLayer
from dovetail.graph.descriptor import Constant, Input, descriptor_class
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import BinaryOperation, ElementwiseBinary, FullyConnected, MatMul

from .. import matrices
from ..driver.arguments import ConstantArray
from ..elementwise import input_info
from ..elementwise.chains import Statement
from ..elementwise.epilogue import Epilogue, Operand, way_of
from ..kernels import TYPES, Kernels, Work

_FLOATS = (DType.FLOAT32, DType.FLOAT16)


class Product(NamedTuple):
    """A product with a constant, and a constant that is added to its rows.

    Attributes:
        x: Its left side.
        weights: Its right side, [depth, columns].
        bias: What is added, [columns] or [1].
        members: The layers that it is made of.
    """

    x: OutputSlot
    weights: npt.NDArray[Any]
    bias: npt.NDArray[Any]
    members: tuple[Layer, ...]


def product_of(slot: OutputSlot, chains: Mapping[Layer, list[Layer]], may_join: Callable[[Layer], bool]) -> Product | None:
    """Return the product that a tensor is; None: it is none that can be merged.

    Args:
        slot: The tensor.
        chains: Layers of elements, and the chain of each, the last layer first.
        may_join: Whether a layer may be replaced.
    """
    own, added = _summand(slot) if slot.layer in chains else (slot, None)
    if own is None or (added is not None and len(chains[slot.layer]) != 1):
        return None
    layer, info = own.layer, slot.known_info
    members = tuple(dict.fromkeys((layer, slot.layer)))
    if not all(may_join(one) for one in members) or info.dtype not in _FLOATS or not info.elements:
        return None
    x, weights = layer.inputs[0].source if layer.inputs else None, layer.constant(1)
    if x is None or weights is None or weights.ndim != 2 or len(x.known_info.sizes) < 2 or layer.constant(0) is not None:
        return None
    descriptor = layer.descriptor
    if isinstance(descriptor, MatMul) and not descriptor.transpose_a:
        is_turned = descriptor.transpose_b
    elif isinstance(descriptor, FullyConnected) and descriptor.activation is None:
        is_turned = True
        if len(layer.inputs) > 2 and layer.inputs[2].source is not None:
            if added is not None or layer.constant(2) is None:
                return None
            added = layer.constant(2)
    else:
        return None
    if added is None:
        added = np.zeros(1, weights.dtype)
    if way_of(added.shape, info.sizes, -1) not in ("one", "line"):
        return None
    return Product(x, weights.T if is_turned else weights, added.reshape(-1), members)


def _summand(slot: OutputSlot) -> tuple[OutputSlot | None, npt.NDArray[Any] | None]:
    """Return of what a tensor is the sum: a tensor that it alone reads, and a constant."""
    descriptor = slot.layer.descriptor
    if not isinstance(descriptor, ElementwiseBinary) or descriptor.operation is not BinaryOperation.ADD:
        return None, None
    sources = [one.source for one in slot.layer.inputs if one.source is not None]
    for own, other in (sources, sources[::-1]):
        added = _value(other)
        if added is not None and len(own.consumers) == 1 and own.known_info.sizes == slot.known_info.sizes:
            return (own, added) if descriptor.activation is None else (None, None)
    return None, None


def _value(slot: OutputSlot) -> npt.NDArray[Any] | None:
    descriptor = slot.layer.descriptor
    return descriptor.value if isinstance(descriptor, Constant) else None


@descriptor_class
class Merged(PrivateLayer, kind="GpuAcc.Merged"):
    """Products of x with constants, next to one another along the last axis.

    Its inputs are x, the right side of each, and what is added to the rows of each.
    """

    input_names: ClassVar[tuple[str, ...]] = ("x, right sides and biases",)
    columns: tuple[int, ...]
    """Of each."""

    def in_words(self) -> str:
        return f"{len(self.columns)} products, of {' + '.join(str(count) for count in self.columns)} columns"


def merged(network: Network, x: OutputSlot, products: Sequence[Product]) -> Layer:
    """Add the layer that computes some products of x to a network that replaces theirs."""
    columns = tuple(one.weights.shape[1] for one in products)
    info = x.known_info
    layers = [layer for one in products for layer in one.members]
    return network.add(
        Merged(infos=(info.with_shape((*info.shape[:-1], sum(columns))),), columns=columns),
        x,
        *(one.weights for one in products),
        *(one.bias for one in products),
        name=layers[-1].name,
        sources_of=list(dict.fromkeys(name for layer in layers for name in layer.sources)),
    )


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of products that are merged."""
    made = layer.descriptor
    assert isinstance(made, Merged)
    count = len(made.columns)
    values: list[Any] = [layer.constant(1 + index) for index in range(2 * count)]
    biases = [np.broadcast_to(bias, columns) for bias, columns in zip(values[count:], made.columns, strict=True)]
    network = Network("products")
    x = network.add(Input(info=input_info(layer, 0)))
    product = network.add(MatMul(), x.output, np.concatenate(values[:count], 1))
    added = Operand(ConstantArray(np.concatenate(biases)), TYPES[layer.output.known_info.dtype], "line")
    statement = Statement("((v) + (w))", "v, w", (0, 1), DType.FLOAT32)
    return matrices.create(product, kernels, Epilogue((added,), (statement,)))
