"""Layers that only move elements: each is a list of strided copies."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from dovetail.abi cimport DOVETAIL_ALIAS_PART, DOVETAIL_ALIAS_VIEW, DOVETAIL_WORKLOAD_ELIDABLE
from dovetail_neon.movement.parameters cimport ACC_MOVED_AXES, ACC_RUN, ACC_STRIDED, ACC_TRANSPOSED, ACC_TRANSPOSED_FLOATS
from dovetail_neon.movement.parameters cimport acc_move, acc_moves
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

import math

from dovetail import DataLayout

from dovetail_neon.movement.element_bytes import element_bytes
from dovetail_neon.movement.strides import RUN, STRIDED, TRANSPOSED, Move, contiguous, padded, pieces, plan, sliced


CODES = {RUN: ACC_RUN, STRIDED: ACC_STRIDED, TRANSPOSED: ACC_TRANSPOSED}
# How long a chunk is: bytes of a run, elements, rows of a matrix. Long enough to cost more than
# finding it.
STRIPES = {RUN: 1 << 14, STRIDED: 1 << 12, TRANSPOSED: 32}
# Nanoseconds per byte of a run, per element.
COSTS = {RUN: 0.08, STRIDED: 0.7, TRANSPOSED: 0.6}


def create_concat(layer, Kernels kernels):
    """Return the workload of a `Concat`."""
    whole = layer.output.info.sizes
    axis = layer.descriptor.axis % len(whole)
    return joined(layer, kernels, axis, [info.sizes[axis] for info in layer.input_infos])


def create_stack(layer, Kernels kernels):
    """Return the workload of a `Stack`."""
    whole = layer.output.info.sizes
    return joined(layer, kernels, layer.descriptor.axis % len(whole), [1] * len(layer.inputs))


cdef object joined(layer, Kernels kernels, axis, counts):
    info = layer.output.info
    moves = [
        Move(shape, part, whole, input=index, target_offset=offset)
        for index, shape, part, whole, offset in pieces(info.sizes, axis, counts, info.dtype.itemsize)
    ]
    return moved(kernels, info.dtype.itemsize, moves, DOVETAIL_ALIAS_PART if math.prod(info.sizes[:axis]) == 1 else 0)


def create_rearrange(layer, Kernels kernels):
    """Return the workload of a `Rearrange`."""
    itemsize, moves = layer.output.info.dtype.itemsize, layer.descriptor.moves
    is_view = len(moves) == 1 and moves[0].is_view(itemsize)
    return moved(kernels, itemsize, moves, DOVETAIL_ALIAS_VIEW if is_view else 0)


def create_split(layer, Kernels kernels):
    """Return the workload of a `Split`."""
    info = layer.inputs[0].info
    axis = layer.descriptor.axis % info.rank
    counts = [result.sizes[axis] for result in layer.output_infos]
    moves = [
        Move(shape, whole, part, output=index, source_offset=offset)
        for index, shape, part, whole, offset in pieces(info.sizes, axis, counts, info.dtype.itemsize)
    ]
    return moved(kernels, info.dtype.itemsize, moves, DOVETAIL_ALIAS_VIEW if math.prod(info.sizes[:axis]) == 1 else 0)


def create_permute(layer, Kernels kernels):
    """Return the workload of a `Permute`."""
    info, result = layer.inputs[0].info, layer.output.info
    own = contiguous(info.sizes, info.dtype.itemsize)
    return rearranged(layer, kernels, result.sizes, [own[axis] for axis in layer.descriptor.order(info.rank)])


def create_slice(layer, Kernels kernels):
    """Return the workload of a `StridedSlice`."""
    info, result = layer.inputs[0].info, layer.output.info
    steps, first = sliced(info.sizes, layer.descriptor.ranges(info.sizes), info.dtype.itemsize)
    return rearranged(layer, kernels, result.sizes, steps, first if result.elements else 0)


def create_broadcast(layer, Kernels kernels):
    """Return the workload of a `BroadcastTo`."""
    info, sizes = layer.inputs[0].info, layer.output.info.sizes
    own, missing = contiguous(info.sizes, info.dtype.itemsize), len(sizes) - info.rank
    steps = [0 if size == 1 else step for size, step in zip(info.sizes, own)]
    return rearranged(layer, kernels, sizes, [0] * missing + steps)


def create_tile(layer, Kernels kernels):
    """Return the workload of a `Tile`."""
    info, repeats = layer.inputs[0].info, layer.descriptor.repeats
    own = contiguous(info.sizes, info.dtype.itemsize)
    sizes = [n for pair in zip(repeats, info.sizes) for n in pair]
    return rearranged(layer, kernels, sizes, [n for step in own for n in (0, step)])


def create_space_to_depth(layer, Kernels kernels):
    """Return the workload of a `SpaceToDepth`."""
    info, block = layer.inputs[0].info, layer.descriptor.block
    own = contiguous(info.sizes, info.dtype.itemsize)
    if layer.descriptor.layout is DataLayout.NCHW:
        (n, c, h, w), (sn, sc, sh, sw) = info.sizes, own
        sizes, steps = (n, block, block, c, h // block, w // block), (sn, sh, sw, sc, sh * block, sw * block)
    else:
        (n, h, w, c), (sn, sh, sw, sc) = info.sizes, own
        sizes, steps = (n, h // block, w // block, block, block, c), (sn, sh * block, sw * block, sh, sw, sc)
    return rearranged(layer, kernels, sizes, steps)


def create_depth_to_space(layer, Kernels kernels):
    """Return the workload of a `DepthToSpace`."""
    info, block, descriptor = layer.inputs[0].info, layer.descriptor.block, layer.descriptor
    own = contiguous(info.sizes, info.dtype.itemsize)
    first = descriptor.layout is DataLayout.NCHW
    (n, depth, h, w), (sn, sd, sh, sw) = (
        (info.sizes, own) if first else (tuple(of[axis] for axis in (0, 3, 1, 2)) for of in (info.sizes, own))
    )
    c = depth // block**2
    # Steps of c, and of the rows and columns of a block, within the input's channels.
    sc, sy, sx = (sd * block**2, sd * block, sd) if descriptor.column_first else (sd, sd * block * c, sd * c)
    if first:
        return rearranged(layer, kernels, (n, c, h, block, w, block), (sn, sc, sh, sy, sw, sx))
    return rearranged(layer, kernels, (n, h, block, w, block, c), (sn, sh, sy, sw, sx, sc))


cdef object rearranged(layer, Kernels kernels, sizes, steps, offset=0):
    """One view of the input, whose elements in their order are the output."""
    itemsize = layer.output.info.dtype.itemsize
    move = Move(tuple(sizes), tuple(steps), contiguous(sizes, itemsize), source_offset=offset)
    return moved(kernels, itemsize, [move], DOVETAIL_ALIAS_VIEW if move.is_view(itemsize) else 0)


def create_pad(layer, Kernels kernels):
    """Return the workload of a `Pad` with a constant."""
    info, d = layer.inputs[0].info, layer.descriptor
    itemsize = info.dtype.itemsize
    moves = padded(info.sizes, layer.output.info.sizes, d.before, d.after, itemsize)
    return moved(kernels, itemsize, moves, 0, element_bytes(info.dtype, d.value))


cdef object moved(Kernels kernels, int itemsize, given, int relation, bytes fill=b"\0"):
    """Return the workload of some copies.

    `relation` is the alias that makes each of them unnecessary, or 0.
    """
    n_inputs, n_outputs = (max(getattr(move, side) for move in given) + 1 for side in ("input", "output"))
    cdef Workload workload = new_workload(sizeof(acc_moves), max(n_inputs, 1), n_outputs)
    cdef acc_moves *s = <acc_moves *>workload.state.parameters
    cdef acc_move *moves = <acc_move *>workload.allocate(len(given) * sizeof(acc_move))
    cdef acc_move *m
    cdef const char *pattern
    cdef int64_t items = 0
    repeated = fill * (8 // len(fill))
    pattern = repeated
    memcpy(s.fill, pattern, 8)
    s.moves = moves
    nanoseconds = 0.0
    for move in given:
        if relation:
            workload.alias(relation, move.output, move.input, move.source_offset + move.target_offset)
        if 0 in move.sizes:
            continue
        m = &moves[s.count]
        walk = plan(move, itemsize)
        if len(walk.outer) > ACC_MOVED_AXES:
            raise ValueError(f"a copy along {len(walk.outer)} axes; at most {ACC_MOVED_AXES} were expected")
        m.input, m.output, m.method, m.element, m.rank = move.input, move.output, CODES[walk.method], walk.element, len(walk.outer)
        if walk.method == TRANSPOSED and walk.element == itemsize == 4:
            m.method = ACC_TRANSPOSED_FLOATS
        for axis, (size, source, target) in enumerate(walk.outer):
            m.sizes[axis], m.source_steps[axis], m.target_steps[axis] = size, source, target
        m.source_offset, m.target_offset = move.source_offset, move.target_offset
        m.length, m.stripe = walk.length, STRIPES[walk.method]
        m.chunks = parts(m.length, m.stripe)
        m.source_step, m.target_step, m.columns, m.column_step = walk[4:]
        rows = math.prod(size for size, _, _ in walk.outer)
        m.first_item, m.items = items, rows * m.chunks
        items += m.items
        nanoseconds += rows * (5 + m.length * m.columns * COSTS[walk.method])
        s.count += 1
    workload.phase(kernels.table.movement.move, items, nanoseconds)
    return workload.capsule(DOVETAIL_WORKLOAD_ELIDABLE if relation else 0)
