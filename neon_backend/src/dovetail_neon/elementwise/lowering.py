"""What elementwise layers become."""

from __future__ import annotations

from dovetail import Layer
from dovetail.layers import (
    BinaryOperation,
    ElementwiseBinary,
)

from ..fusion.lowering import Lowering
from ..fusion.patterns import Applied
from ..geometry.layouts import Image
from .functions import function_of
from .kinds import Apply, Combine, ScaleChannels


def lower_binary(lowering: Lowering, layer: Layer) -> bool:
    """Of blocked images: with one of the same size, or times a factor per channel."""
    descriptor = layer.descriptor
    a, b = layer.inputs[0].source, layer.inputs[1].source
    if not isinstance(descriptor, ElementwiseBinary) or a is None or b is None:
        return False
    function = function_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)
    if function is None:
        return False
    output = layer.output
    if a.known_info.sizes == b.known_info.sizes:
        layout = lowering.data_layout(a) or lowering.data_layout(b)
        if layout is None or descriptor.operation not in COMBINED:
            return False
        source = lowering.blocked(a, layout)
        combine = Combine(infos=(source.known_info,), operation=descriptor.operation.value, function=function)
        made = lowering.emit(combine, [source, lowering.blocked(b, layout)], [layer])
        lowering.define(output, made.output, "blocked", layout)
        return True
    if descriptor.operation is not BinaryOperation.MUL:
        return False
    for x, factor in ((a, b), (b, a)):
        layout = lowering.data_layout(x)
        if layout is None or factor.known_info.rank != 4 or output.known_info.sizes != x.known_info.sizes:
            continue
        image, one = Image.of(x.known_info, layout), Image.of(factor.known_info, layout)
        if one.pixels != 1 or one.channels != image.channels or one.batch != image.batch:
            continue
        source = lowering.blocked(x, layout)
        scale = ScaleChannels(infos=(source.known_info,), image=image, function=function)
        made = lowering.emit(scale, [source, lowering.plain(factor)], [layer])
        lowering.define(output, made.output, "blocked", layout)
        return True
    return False


COMBINED = frozenset({BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL})


def lower_function(lowering: Lowering, match: Applied) -> None:
    """A function that no kernel could take along, in whatever layout its argument has."""
    layout = lowering.data_layout(match.input)
    source = lowering.plain(match.input) if layout is None else lowering.blocked(match.input, layout)
    made = lowering.emit(Apply(infos=(source.known_info,), function=match.function), [source], match.layers).output
    if layout is None:
        lowering.define(match.output, made)
    else:
        lowering.define(match.output, made, "blocked", layout)
