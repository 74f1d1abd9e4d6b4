"""Layers that compute or move elements in whatever order of axes they are stored."""

from __future__ import annotations

from dovetail import Layer
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Activation, ActivationFunction, Concat, ElementwiseBinary, Pad, Softmax
from dovetail.quantized.bounds import bounds_of

from .. import program
from .request import Request
from .storage import Order, Storage, natural, sizes, source, unsigned
from .weighted import bounds

_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply"}
_CLAMPS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


def binary(storage: Storage, layer: Layer, request: Request) -> None:
    """Add an `ElementwiseBinary`; an operand of fewer axes gets some of size one in front."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, ElementwiseBinary)
    operands = [source(layer, index) for index in range(2)]
    rank = layer.output.known_info.rank
    alike = all(slot.known_info.rank == rank for slot in operands)
    order = common_order(storage, operands) if alike else natural(layer.output)
    low, high = bounds(descriptor, layer)
    storage.add(
        program.Binary(
            name=layer.name,
            inputs=tuple(_with_rank(storage, slot, rank, order) for slot in operands),
            output=storage.new_tensor(layer.output, order),
            sources=layer.sources,
            function=_BINARY[descriptor.operation],
            low=low,
            high=high,
        )
    )


def activation(storage: Storage, layer: Layer, request: Request) -> None:
    """Add an `Activation`; one that clamps is a requantization with bounds."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Activation)
    slot = source(layer, 0)
    order = common_order(storage, [slot])
    read, written = storage.stored(slot, order), storage.new_tensor(layer.output, order)
    info = layer.output.known_info
    if descriptor.function in _CLAMPS:
        low, high = bounds_of(descriptor.function, descriptor.alpha, descriptor.beta, info)
        storage.add(
            program.Requantize(
                name=layer.name,
                inputs=(read,),
                output=written,
                sources=layer.sources,
                low=unsigned(low, info.dtype),
                high=unsigned(high, info.dtype),
            )
        )
        return
    storage.add(
        program.Function(
            name=layer.name,
            inputs=(read,),
            output=written,
            sources=layer.sources,
            function=str(descriptor.function),
            alpha=descriptor.alpha,
            beta=descriptor.beta,
        )
    )


def softmax(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Softmax`."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Softmax)
    slot = source(layer, 0)
    order = common_order(storage, [slot])
    storage.add(
        program.Softmax(
            name=layer.name,
            inputs=(storage.stored(slot, order),),
            output=storage.new_tensor(layer.output, order),
            sources=layer.sources,
            axis=order.index(descriptor.axis % len(order)),
            beta=descriptor.beta,
        )
    )


def concat(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Concat`."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Concat)
    slots = [source(layer, index) for index in range(len(layer.inputs))]
    order = common_order(storage, slots)
    storage.add(
        program.Concat(
            name=layer.name,
            inputs=tuple(storage.stored(slot, order) for slot in slots),
            output=storage.new_tensor(layer.output, order),
            sources=layer.sources,
            axis=order.index(descriptor.axis % len(order)),
        )
    )


def pad(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Pad`."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Pad)
    slot = source(layer, 0)
    order = common_order(storage, [slot])
    storage.add(
        program.Pad(
            name=layer.name,
            inputs=(storage.stored(slot, order),),
            output=storage.new_tensor(layer.output, order),
            sources=layer.sources,
            before=tuple(descriptor.before[axis] for axis in order),
            after=tuple(descriptor.after[axis] for axis in order),
            value=unsigned(int(descriptor.value), slot.dtype),
        )
    )


def common_order(storage: Storage, slots: list[OutputSlot]) -> Order:
    """Return the order in which most of some slots of equal rank are stored already."""
    orders = [order for slot in slots for order in storage.orders(slot)]
    return max(orders, key=orders.count) if orders else natural(slots[0])


def _with_rank(storage: Storage, slot: OutputSlot, rank: int, order: Order) -> int:
    if slot.known_info.rank == rank:
        return storage.stored(slot, order)
    shape = (*(1,) * (rank - slot.known_info.rank), *sizes(slot))
    made = storage.unstored_tensor(slot, shape)
    storage.add(program.Reshape(name=f"{slot.name} with {rank} axes, {made}", inputs=(storage.stored(slot),), output=made))
    return made
