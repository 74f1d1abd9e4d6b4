"""What stands in for a part: fused layers, over images of the layout that the device wants.

On a CPU, images that convolutions read and write lie with channels last, so that vectors go along
channels however small images are. Elsewhere they lie as the model has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dovetail import DataLayout, Descriptor, Layer, Network, OptimizationViews, SubgraphView
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import DepthwiseConvolution2d

from ..convolution.images import Convolution, Separable
from ..convolution.separable import can_be
from ..elementwise.chain_layer import chain_of, operands_of
from ..families import CONVOLUTIONS, family_name
from .fused import Fused
from .lowering import Lowering, is_image, turned
from .rules import lower_image

_MIN_FILTERS = 16
"""Of a group of many, for which channels last pay."""


class Group(NamedTuple):
    """Layers that become one.

    Attributes:
        producer: The layer whose kernel computes the chain behind it; None: it is one alone.
        chain: Elementwise layers, in order.
    """

    producer: Layer | None
    chain: Sequence[Layer]

    @property
    def members(self) -> list[Layer]:
        """All layers, in order."""
        return [*self.chain] if self.producer is None else [self.producer, *self.chain]


def lower_images(view: SubgraphView, views: OptimizationViews, groups: Sequence[Group], vector: int) -> set[Layer]:
    """Replace the parts in which convolutions want images with channels last, as a whole.

    Args:
        view: Of layers that are not replaced yet.
        views: The answer.
        groups: Of which some may lie outside.
        vector: Floats of a vector of the device.

    Returns:
        The layers that were replaced.
    """
    if not any(_wants_last(layer, vector) for layer in view.layers):
        return set()
    replaced: set[Layer] = set()
    for part in view.convex_parts():
        if any(_wants_last(layer, vector) for layer in part.layers):
            views.substitute(part, _lowered(part, [group for group in groups if group.chain[-1] in part], vector))
            replaced.update(part.layers)
    return replaced


def replacement(part: SubgraphView, group: Group) -> Network:
    """Return what stands in for the layers of a group."""
    lowering = Lowering(part)
    _emit(lowering, group, last=False)
    return lowering.finish()


def _lowered(part: SubgraphView, groups: Sequence[Group], vector: int) -> Network:
    """Return what stands in for a part."""
    lowering = Lowering(part)
    whole = [group for group in groups if all(layer in part for layer in group.members)]
    ending = {group.chain[-1]: group for group in whole}
    inside = {layer for group in whole for layer in group.members[:-1]}
    inside.update(_filters(part, whole, vector))
    for layer in part.layers:
        group = ending.get(layer)
        if layer in inside:
            continue
        if group is not None and len(group.members) > 1:
            _emit(lowering, group, last=_goes_last(lowering, group, vector))
        elif _wants_last(layer, vector):
            layers = [*_filter_of(lowering, layer), layer]
            made, inputs = _with_channels_last(lowering, layer)
            emitted = lowering.emit(made, inputs, layers, layer.output.quantization)
            lowering.define(layer.output, emitted.output, last=True)
        elif not lower_image(lowering, layer):
            _keep(lowering, layer)
    return lowering.finish()


def _filters(part: SubgraphView, groups: Sequence[Group], vector: int) -> set[Layer]:
    """Return the convolutions of single channels that become one with what reads them."""
    finished = {group.producer for group in groups}
    found: set[Layer] = set()
    for layer in part.layers:
        readers = layer.outputs[0].consumers if len(layer.outputs) == 1 else ()
        if len(readers) != 1 or layer in finished or layer.output in part.outputs or not _wants_last(layer, vector):
            continue
        reader = readers[0].layer
        if reader in part and _wants_last(reader, vector) and can_be(layer, reader, vector):
            found.add(layer)
    return found


def _wants_last(layer: Layer, vector: int) -> bool:
    """Say whether a layer is a convolution that is faster with channels last."""
    descriptor: Any = layer.descriptor
    if layer.kind not in CONVOLUTIONS or descriptor.layout is not DataLayout.NCHW:
        return False
    if layer.constant(1) is None or (
        len(layer.inputs) > 2 and layer.inputs[2].source is not None and layer.constant(2) is None
    ):
        return False
    image, result = layer.input_infos[0], layer.output.known_info
    if image is None or not is_image(image) or not is_image(result):
        return False
    if family_name(layer) == "quantized":
        return True
    channels, filters = image.sizes[1], result.sizes[1]
    if isinstance(descriptor, DepthwiseConvolution2d):
        return channels == filters >= vector
    groups: int = descriptor.groups
    return groups == 1 or filters // groups >= _MIN_FILTERS


def _goes_last(lowering: Lowering, group: Group, vector: int) -> bool:
    """Say whether what becomes one reads and writes images with channels last."""
    if group.producer is not None:
        return _wants_last(group.producer, vector)
    if any(not is_image(layer.output.known_info) for layer in group.chain):
        return False
    return any(lowering.is_last(slot) for slot in operands_of(group.chain))


def _emit(lowering: Lowering, group: Group, *, last: bool) -> None:
    """Emit what a group of layers becomes."""
    result, operands, producer = group.chain[-1].output, operands_of(group.chain), group.producer
    if producer is not None:
        operands.remove(producer.output)
        operands.insert(0, producer.output)
    chain = chain_of(group.chain, operands)
    if last:
        chain = replace(chain, infos=(turned(result.known_info),))
    made: Descriptor = chain
    inputs: list[OutputSlot | None] = []
    layers = group.members
    if producer is not None:
        descriptor = producer.descriptor
        if last:
            layers = [*_filter_of(lowering, producer), *layers]
            descriptor, inputs = _with_channels_last(lowering, producer)
        else:
            inputs = [None if slot.source is None else lowering.plain(slot.source) for slot in producer.inputs]
        made = Fused(infos=chain.infos, producer=descriptor, inputs=len(inputs), chain=chain)
        operands = operands[1:]
    rank = result.known_info.rank
    inputs += [lowering.last_operand(slot, rank) if last else lowering.plain(slot) for slot in operands]
    lowering.define(result, lowering.emit(made, inputs, layers).output, last=last)


def _filter_of(lowering: Lowering, layer: Layer) -> list[Layer]:
    """List the convolution of single channels that becomes one with its reader, if there is one."""
    image = layer.inputs[0].source
    assert image is not None
    return [] if lowering.is_made(image) else [image.layer]


def _with_channels_last(lowering: Lowering, layer: Layer) -> tuple[Descriptor, list[OutputSlot | None]]:
    """Return a convolution over images with channels last, and what it reads."""
    info = turned(layer.output.known_info)
    image, *others = (slot.source for slot in layer.inputs)
    assert image is not None
    for first in _filter_of(lowering, layer):
        middle = turned(image.known_info)
        made: Descriptor = Separable(infos=(info,), depthwise=first.descriptor, middle=middle, pointwise=layer.descriptor)
        source, *constants = (slot.source for slot in (*first.inputs, *layer.inputs[1:]))
        assert source is not None
        return made, [lowering.last(source), *(None if slot is None else lowering.plain(slot) for slot in constants)]
    made = Convolution(infos=(info,), convolution=layer.descriptor, layout=DataLayout.NHWC)
    return made, [lowering.last(image), *(None if slot is None else lowering.plain(slot) for slot in others)]


def _keep(lowering: Lowering, layer: Layer) -> None:
    """Leave a layer as it is."""
    inputs = [None if slot.source is None else lowering.plain(slot.source) for slot in layer.inputs]
    kept = lowering.emit(layer.descriptor, inputs, [layer])
    for old, new in zip(layer.outputs, kept.outputs, strict=True):
        new.quantization, new.info = old.quantization, old.info
        lowering.define(old, new)
