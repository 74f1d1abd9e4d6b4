"""Join layers that only move elements: what they cut out, turn or put together is read in place.

Each of them would read and write all of its tensor. One copy between strided views does the same
for a chain of them, such as the head of a detector: filters turned innermost, cut into coordinates
and scores, put together again, all scales one behind the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dovetail import DataLayout, Layer
from dovetail.graph.descriptor import Output
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Concat, ExpandDims, Flatten, Permute, Reshape, Squeeze, StridedSlice

from ..convolution.kinds import Convolve
from ..geometry.layouts import plain_info
from .kinds import Rearrange, Reorder
from .strides import RUN, Move, contiguous, pieces, plan, reshaped, sliced

MAX_TENSORS = 64
"""That a layer reads or writes, as the manifest claims and workload.pyx holds."""
MAX_MOVES = 4 * MAX_TENSORS
"""Most moves of one copy.

In a chain of concatenations, each adding to the one before, every one would list all that came
before.
"""

_VIEWS = (Reshape, ExpandDims, Flatten, Squeeze)
_MIN_RUN = 64
"""Bytes that lie side by side on both sides of a copy that replaces a transposition."""


def join_moves(graph: Graph) -> None:
    """Join what can be joined, from the inputs to the outputs."""
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, Permute):
            _turn_blocks(graph, layer, layer.descriptor)
        elif isinstance(layer.descriptor, Concat):
            _put_together(graph, layer, layer.descriptor)


def _turn_blocks(graph: Graph, layer: Layer, permute: Permute) -> None:
    """Turn an image that comes out of blocks.

    Where its channels end up innermost they are taken out of the blocks that way.
    """
    views = _views_before(layer.inputs[0].source)
    reorder = views[-1].inputs[0].source if views else layer.inputs[0].source
    if reorder is None or not _is_only(reorder) or not isinstance(reorder.layer.descriptor, Reorder):
        return
    blocked, image = reorder.layer.inputs[0].source, reorder.layer.descriptor.image
    if blocked is None or reorder.known_info.opaque is not None or reorder.layer.descriptor.channels_last:
        return
    info = layer.inputs[0].info
    last = image.shape(DataLayout.NHWC)
    n, h, w, c = contiguous(last, 4)
    steps = None if info is None else reshaped(image.shape(DataLayout.NCHW), (n, c, h, w), info.sizes)
    if info is None or steps is None:
        return
    order, sizes = permute.order(info.rank), layer.output.known_info.sizes
    move = Move(sizes, tuple(steps[axis] for axis in order), contiguous(sizes, 4))
    if not move.is_view(4):
        walk = plan(move, 4) if math.prod(sizes) else None
        if walk is None or walk.method != RUN or walk.length < _MIN_RUN:
            return
    producer, infos = blocked.layer, (plain_info(last),)
    if _is_only(blocked) and isinstance(producer.descriptor, Convolve) and len(producer.inputs) == 1:
        # The convolution itself stores pixels with their channels innermost.
        graph.replace_descriptor(producer, replace(producer.descriptor, infos=infos))
        graph.infer(producer)
        _replace(graph, [layer, *views, reorder.layer], [blocked], [move])
    else:
        graph.replace_descriptor(reorder.layer, Reorder(infos=infos, image=image, channels_last=True))
        graph.infer(reorder.layer)
        _replace(graph, [layer, *views], [reorder], [move])


def _put_together(graph: Graph, layer: Layer, concat: Concat) -> None:
    """Copy the parts of a concatenation from their sources, through nested concatenations.

    A part that is one piece of the result may be computed in place; then nothing is copied, and
    nothing is to be gained. Not so where the result leaves the network, in memory of the caller.
    """
    info = layer.output.known_info
    itemsize, axis = info.dtype.itemsize, concat.axis % info.rank
    leaves = all(isinstance(consumer.layer.descriptor, Output) for consumer in layer.output.consumers)
    in_place = math.prod(info.sizes[:axis]) == 1 and not leaves
    counts = [one.known_info.sizes[axis] for one in _sources(layer)]
    sources: list[OutputSlot] = []
    moves: list[Move] = []
    taken = [layer]

    def add(source: OutputSlot, move: Move) -> None:
        if source not in sources:
            sources.append(source)
        moves.append(move._replace(input=sources.index(source)))

    for (_, part, own, whole, offset), source in zip(pieces(info.sizes, axis, counts, itemsize), _sources(layer), strict=True):
        views = _views_before(source)
        before = views[-1].inputs[0].source if views else source
        if before is None or in_place or not _is_only(before):
            add(source, Move(part, own, whole, target_offset=offset))
            continue
        maker, base = before.layer, before.layer.inputs[0].source if before.layer.inputs else None
        if isinstance(maker.descriptor, StridedSlice) and base is not None and not views:
            steps, first = sliced(base.known_info.sizes, maker.descriptor.ranges(base.known_info.sizes), itemsize)
            add(base, Move(part, steps, whole, source_offset=first, target_offset=offset))
            taken.append(maker)
        elif isinstance(maker.descriptor, Permute) and base is not None and not views:
            steps = contiguous(base.known_info.sizes, itemsize)
            order = maker.descriptor.order(base.known_info.rank)
            add(base, Move(part, tuple(steps[axis] for axis in order), whole, target_offset=offset))
            taken.append(maker)
        elif isinstance(maker.descriptor, Rearrange | Concat) and math.prod(info.sizes[:axis]) == 1:
            for origin, move in _moves_of(maker):
                add(origin, move._replace(target_offset=move.target_offset + offset))
            taken += [*views, maker]
        else:
            add(source, Move(part, own, whole, target_offset=offset))
    if len(taken) > 1 and len(sources) <= MAX_TENSORS and len(moves) <= MAX_MOVES:
        _replace(graph, taken, sources, moves)


def _moves_of(maker: Layer) -> list[tuple[OutputSlot, Move]]:
    """List the copies that put a tensor together, each with what it reads."""
    sources = _sources(maker)
    if isinstance(maker.descriptor, Rearrange):
        return [(sources[move.input], move) for move in maker.descriptor.moves]
    info = maker.output.known_info
    axis = maker.descriptor.axis % info.rank  # type: ignore[attr-defined]  # of a Concat
    counts = [source.known_info.sizes[axis] for source in sources]
    parts = pieces(info.sizes, axis, counts, info.dtype.itemsize)
    return [(sources[index], Move(part, own, whole, target_offset=offset)) for index, part, own, whole, offset in parts]


def _replace(graph: Graph, taken: Sequence[Layer], sources: Sequence[OutputSlot], moves: Sequence[Move]) -> None:
    """Put copies in the place of layers, the last of which is named first."""
    last = taken[0]
    info = last.output.known_info
    names = list(dict.fromkeys(name for layer in reversed(taken) for name in layer.sources))
    made = graph.add(
        Rearrange(infos=(info,), moves=tuple(moves)),
        *sources,
        name=graph.unique_name(last.name),
        sources_of=names,
        quantization=last.output.quantization,
    )
    graph.redirect(last.output, made.output)
    name = last.name
    for layer in taken:
        graph.remove(layer)
    graph.rename(made, name)


def _sources(layer: Layer) -> list[OutputSlot]:
    return [slot.source for slot in layer.inputs if slot.source is not None]


def _is_only(slot: OutputSlot) -> bool:
    return len(slot.consumers) == 1


def _views_before(slot: OutputSlot | None) -> list[Layer]:
    """List layers that only reshape what nothing else reads, from the last to the first."""
    found = []
    while slot is not None and _is_only(slot) and isinstance(slot.layer.descriptor, _VIEWS):
        found.append(slot.layer)
        slot = slot.layer.inputs[0].source
    return found
