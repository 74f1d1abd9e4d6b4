"""Layers whose images lie with channels last: what they become there.

A rule is asked where at least one image that a layer reads lies so; it emits the layer, or says
that it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dovetail import DataLayout, Layer
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Permute, Reshape

from ..families import family_name
from .lowering import Lowering, is_image, last_axes


def lower_image(lowering: Lowering, layer: Layer) -> bool:
    """Emit a layer for images with channels last; False: it wants them as the model has them."""
    if not any(lowering.is_last(slot.source) for slot in layer.inputs):
        return isinstance(layer.descriptor, Permute) and _permute_again(lowering, layer, layer.descriptor)
    if any(slot.info is None for slot in layer.outputs):
        return False
    rule = _ELEMENTWISE if family_name(layer) == "elementwise" else _RULES.get(layer.kind)
    return rule is not None and rule(lowering, layer)


def _one_layout(lowering: Lowering, layer: Layer) -> bool:
    """A layer with an attribute for the layout, which reads an image first and makes one."""
    descriptor: Any = layer.descriptor
    source = _image(layer)
    if source is None or descriptor.layout is not DataLayout.NCHW or source.known_info.rank != 4:
        return False
    if layer.output.known_info.rank != 4:
        return False
    others = [None if slot.source is None else lowering.plain(slot.source) for slot in layer.inputs[1:]]
    _emit(lowering, replace(descriptor, layout=DataLayout.NHWC), [lowering.last(source), *others], layer)
    return True


def _elementwise(lowering: Lowering, layer: Layer) -> bool:
    rank = layer.output.known_info.rank
    if not is_image(layer.output.known_info):
        return False
    _emit(lowering, layer.descriptor, [lowering.last_operand(_connected(slot), rank) for slot in layer.inputs], layer)
    return True


def _scaled(lowering: Lowering, layer: Layer) -> bool:
    """Integers from real numbers, or back."""
    descriptor: Any = layer.descriptor
    return not descriptor.quantization.is_per_axis and _elementwise(lowering, layer)


def _along_axis(lowering: Lowering, layer: Layer) -> bool:
    """A layer with one axis, whose inputs and outputs are images of one rank."""
    descriptor: Any = layer.descriptor
    rank = layer.outputs[0].known_info.rank
    sources = [slot.source for slot in layer.inputs if slot.source is not None]
    if any(not is_image(source.known_info) or source.known_info.rank != rank for source in sources):
        return False
    changed = replace(descriptor, axis=last_axes(rank).index(descriptor.axis % rank))
    _emit(lowering, changed, [lowering.last_operand(source, rank) for source in sources], layer)
    return True


def _pad(lowering: Lowering, layer: Layer) -> bool:
    descriptor: Any = layer.descriptor
    source = _only(layer)
    if source is None or len(descriptor.before) != source.known_info.rank:
        return False
    axes = last_axes(source.known_info.rank)
    before, after = (tuple(of[axis] for axis in axes) for of in (descriptor.before, descriptor.after))
    _emit(lowering, replace(descriptor, before=before, after=after), [lowering.last(source)], layer)
    return True


def _slice(lowering: Lowering, layer: Layer) -> bool:
    descriptor: Any = layer.descriptor
    source = _only(layer)
    if source is None or not descriptor.begin:
        return False
    rank = source.known_info.rank
    axes = range(len(descriptor.begin)) if descriptor.axes is None else descriptor.axes
    places = last_axes(rank)
    moved = tuple(places.index(axis % rank) for axis in axes)
    _emit(lowering, replace(descriptor, axes=moved), [lowering.last(source)], layer)
    return True


def _reduce(lowering: Lowering, layer: Layer) -> bool:
    descriptor: Any = layer.descriptor
    source = _only(layer)
    if source is None or descriptor.axes is None:
        return False
    rank = source.known_info.rank
    axes, places = descriptor.reduced_axes(rank), last_axes(rank)
    changed = replace(descriptor, axes=tuple(places.index(axis) for axis in axes))
    if descriptor.keep_dims:
        _emit(lowering, changed, [lowering.last(source)], layer)
        return True
    if not {rank - 2, rank - 1} <= set(axes):
        return False
    made = lowering.emit(changed, [lowering.last(source)], [layer], layer.output.quantization)
    lowering.define(layer.output, made.output)
    return True


def _resize(lowering: Lowering, layer: Layer) -> bool:
    descriptor: Any = layer.descriptor
    source = _only(layer)
    if source is None or source.known_info.rank != 4 or descriptor.axes is not None:
        return False
    sizes, scales = (
        None if given is None else tuple(given[axis] for axis in last_axes(4))
        for given in (descriptor.sizes, descriptor.scales)
    )
    _emit(lowering, replace(descriptor, sizes=sizes, scales=scales), [lowering.last(source)], layer)
    return True


def _permute(lowering: Lowering, layer: Layer) -> bool:
    descriptor: Any = layer.descriptor
    source = _only(layer)
    if source is None:
        return False
    rank = source.known_info.rank
    order, places = descriptor.order(rank), last_axes(rank)
    if is_image(layer.output.known_info) and order[0] == 0 and order[-2:] == (rank - 2, rank - 1):
        moved = tuple(places.index(order[axis]) for axis in places)
        _emit(lowering, Permute(permutation=moved), [lowering.last(source)], layer)
    else:
        moved = tuple(places.index(axis) for axis in order)
        lowering.define(layer.output, lowering.emit(Permute(permutation=moved), [lowering.last(source)], [layer]).output)
    return True


def _permute_again(lowering: Lowering, layer: Layer, descriptor: Permute) -> bool:
    """Of a tensor that was permuted already, make one permutation of what it was made of."""
    source = layer.inputs[0].source
    moved = None if source is None else lowering.moved(source)
    if moved is None:
        return False
    origin, permutation = moved
    order = tuple(permutation[axis] for axis in descriptor.order(len(permutation)))
    lowering.define(layer.output, lowering.emit(Permute(permutation=order), [origin], [layer]).output)
    return True


def _reshape(lowering: Lowering, layer: Layer) -> bool:
    """Channels are parted or joined; rows and columns stay, or they are joined."""
    source, info = _only(layer), layer.output.known_info
    if source is None or not info.elements or info.quantization is not None:
        return False
    sizes, wanted = source.known_info.sizes, info.sizes
    if len(wanted) > 2 and (sizes[0], sizes[-2] * sizes[-1]) == (wanted[0], wanted[-1]) and sizes[-1] != wanted[-1]:
        joined = lowering.emit(Reshape(shape=(wanted[0], wanted[-1], *wanted[1:-1])), [lowering.last(source)], [layer])
        lowering.define_moved(layer.output, joined.output, (0, *range(2, len(wanted)), 1))
        return True
    if not is_image(info) or (sizes[0], *sizes[-2:]) != (wanted[0], *wanted[-2:]):
        return False
    shape = tuple(wanted[axis] for axis in last_axes(info.rank))
    _emit(lowering, Reshape(shape=shape), [lowering.last(source)], layer)
    return True


def _emit(lowering: Lowering, descriptor: Any, inputs: list[OutputSlot | None] | list[OutputSlot], layer: Layer) -> None:
    made = lowering.emit(descriptor, inputs, [layer], layer.outputs[0].quantization)
    for old, new in zip(layer.outputs, made.outputs, strict=True):
        lowering.define(old, new, last=True)


def _image(layer: Layer) -> OutputSlot | None:
    source = layer.inputs[0].source
    return source if source is not None and is_image(source.known_info) else None


def _only(layer: Layer) -> OutputSlot | None:
    """Return the image that a layer reads, if it reads nothing else."""
    return _image(layer) if all(slot.source is None for slot in layer.inputs[1:]) else None


def _connected(slot: Any) -> OutputSlot:
    assert slot.source is not None, "elementwise layers leave no input out"
    source: OutputSlot = slot.source
    return source


_Rule = Callable[[Lowering, Layer], bool]
_ELEMENTWISE: _Rule = _elementwise
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        ("dovetail.Pooling2d", "dovetail.GlobalPooling", "dovetail.BatchNormalization", "dovetail.InstanceNormalization"),
        _one_layout,
    ),
    **dict.fromkeys(("dovetail.SpaceToDepth", "dovetail.DepthToSpace", "dovetail.LocalResponseNormalization"), _one_layout),
    **dict.fromkeys(("dovetail.Concat", "dovetail.Split", "dovetail.Softmax"), _along_axis),
    **dict.fromkeys(  # where they are quantized, and no part of chains
        ("dovetail.Activation", "dovetail.Prelu", "dovetail.ElementwiseUnary", "dovetail.ElementwiseBinary"), _elementwise
    ),
    **dict.fromkeys(("dovetail.Quantize", "dovetail.Dequantize"), _scaled),
    "dovetail.Pad": _pad,
    "dovetail.StridedSlice": _slice,
    "dovetail.Reduce": _reduce,
    "dovetail.Resize": _resize,
    "dovetail.Permute": _permute,
    "dovetail.Reshape": _reshape,
}
