"""Layers that change axes alone."""

from __future__ import annotations

from dovetail import Layer
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Permute

from .. import program
from .elements import common_order
from .request import Request
from .storage import PLANAR, Storage, natural, sizes, source


def reshape(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Reshape`, or another layer whose elements stay in their order.

    Rows of an image that is stored as planes, which fully connected layers read, stay in the order
    of the planes: their weights are reordered instead.
    """
    slot = source(layer, 0)
    if _is_read_as_rows(slot, layer, request) and PLANAR in storage.orders(slot) and natural(slot) not in storage.orders(slot):
        storage.flatten(layer.output, slot, layer.sources)
        return
    read, written = storage.stored(slot), storage.new_tensor(layer.output)
    storage.add(program.Reshape(name=layer.name, inputs=(read,), output=written, sources=layer.sources))


def permute(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Permute`: what is stored is the result in another order, so that nothing moves yet."""
    descriptor, slot = layer.descriptor, source(layer, 0)
    assert isinstance(descriptor, Permute)
    order = descriptor.order(slot.known_info.rank)
    stored = common_order(storage, [slot])
    storage.store(layer.output, storage.stored(slot, stored), tuple(order.index(axis) for axis in stored))


def _is_read_as_rows(slot: OutputSlot, layer: Layer, request: Request) -> bool:
    """Say whether a layer makes rows of an image that fully connected layers of the part read."""
    shape = sizes(slot)
    readers = [reader.layer for reader in layer.output.consumers]
    return (
        len(shape) == 4
        and sizes(layer.output) == (shape[0], shape[1] * shape[2] * shape[3])
        and all(reader in request.part and reader.kind == "dovetail.FullyConnected" for reader in readers)
    )
