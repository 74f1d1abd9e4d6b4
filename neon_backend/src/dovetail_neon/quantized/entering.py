"""Quantize images that come in as floats to where they are read: bytes, pixel after pixel."""

from __future__ import annotations

from dovetail import DType, Layer
from dovetail.graph.graph import Graph
from dovetail.layers import Quantize

from ..geometry.layouts import pixel_bytes
from .kinds import QuantizeImage, ReorderQuantized

_PIXEL_BYTES = 4
"""Of images of few channels, as cameras give them: others come in rarely."""


def join_entries(graph: Graph) -> None:
    """Join each quantization with the reordering behind it."""
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, Quantize) and len(layer.output.consumers) == 1:
            _join(graph, layer, layer.descriptor, layer.output.consumers[0].layer)


def _join(graph: Graph, layer: Layer, quantize: Quantize, reorder: Layer) -> None:
    order, source = reorder.descriptor, layer.inputs[0].source
    if not isinstance(order, ReorderQuantized) or source is None or source.known_info.dtype is not DType.FLOAT32:
        return
    info = reorder.output.known_info
    if info.opaque is None or pixel_bytes(order.image.channels) != _PIXEL_BYTES or quantize.quantization.is_per_axis:
        return
    made = graph.add(
        QuantizeImage(
            infos=(info,),
            image=order.image,
            channels_last=order.channels_last,
            quantization=quantize.quantization,
            rounding=quantize.rounding,
        ),
        source,
        name=graph.unique_name(layer.name),
        sources_of=[*layer.sources, *reorder.sources],
    )
    graph.redirect(reorder.output, made.output)
    graph.remove(reorder)
    graph.remove(layer)
    graph.rename(made, layer.name)
