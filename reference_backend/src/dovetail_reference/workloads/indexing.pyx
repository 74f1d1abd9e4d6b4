"""StridedSlice, Gather, GatherElements, GatherNd, OneHot, Trilu and Fill, for every element type.

A position out of range fails the run, except in OneHot, where it is off everywhere.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.blocks cimport load_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.positions cimport clear_bytes, copy_bytes, free_axes, load_position, name_axes, named_axes
from dovetail_reference.workloads.positions cimport named_offset, resolved
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand, plan_walk, run_errand, walk
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

import math

from dovetail.layers import Fill, Gather, GatherElements, GatherNd, OneHot, StridedSlice

from .blocks import element_bytes
from .movement import Copy, Relation, fill_workload, movement_workload
from .strides import coalesce, contiguous


def create(layer, dtype):
    """Make the workload capsule."""
    descriptor, infos, result = layer.descriptor, layer.input_infos, layer.output.known_info
    if isinstance(descriptor, Fill):
        return fill_workload(element_bytes(result.dtype, descriptor.value), result.elements)
    if isinstance(descriptor, StridedSlice):
        return _create_slice(descriptor, infos[0], result)
    if isinstance(descriptor, Gather):
        return _create_gather(descriptor, infos[0], infos[1])
    if isinstance(descriptor, GatherElements):
        return _create_gather_elements(descriptor, infos[0], infos[1])
    if isinstance(descriptor, GatherNd):
        return _create_gather_nd(descriptor, infos[0], infos[1])
    if isinstance(descriptor, OneHot):
        return _create_one_hot(descriptor, infos[0], result)
    return _create_trilu(descriptor, infos[0])


def _create_slice(descriptor, info, result):
    """One strided copy; a view where the part lies in one piece."""
    itemsize = info.dtype.itemsize
    strides = contiguous(info.sizes, itemsize)
    ranges = descriptor.ranges(info.sizes)
    source = [stride * step for stride, (_, step, _) in zip(strides, ranges, strict=True)]
    target = contiguous(result.sizes, itemsize)
    _, (read, written) = coalesce(result.sizes, (source, target))
    first = sum(stride * begin for stride, (begin, _, _) in zip(strides, ranges, strict=True))
    part = Copy(
        shape=result.sizes,
        source_offset=first if result.elements else 0,
        source_strides=source,
        target_strides=target,
        relation=Relation.VIEW if read == written else Relation.NONE,
    )
    return movement_workload([part], itemsize)


# -- gather ----------------------------------------------------------------------------------------


cdef struct gather_state:
    Element kind        # of the indices
    int axis
    int64_t index_bytes
    int64_t batches
    int64_t outer
    int64_t size
    int64_t count       # indices per batch
    int64_t inner       # bytes that lie in one piece


cdef int execute_gather(void *state, const dovetail_call *call) noexcept nogil:
    cdef gather_state *self = <gather_state *>state
    cdef const char *source = <const char *>tensor_data(&call.inputs[0])
    cdef const char *indices = <const char *>tensor_data(&call.inputs[1])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t batch, o, i, position
    cdef errand run = new_errand(call)
    for batch in range(self.batches):
        for o in range(self.outer):
            for i in range(self.count):
                position = load_position(self.kind, indices + (batch * self.count + i) * self.index_bytes)
                position = resolved(position, self.size, self.axis, &run)
                if not go_on(&run, 16):
                    return run.code
                copy_bytes(target, source + ((batch * self.outer + o) * self.size + position) * self.inner, self.inner, &run)
                target += self.inner
    return run.code


cdef object _create_gather(object descriptor, object info, object indices):
    capsule = new_workload(execute_gather, sizeof(gather_state))
    cdef gather_state *self = <gather_state *>state_of(capsule)
    axis, batch_dims = descriptor.axis % info.rank, descriptor.batch_dims
    self.kind, self.index_bytes = element_of(indices.dtype), indices.dtype.itemsize
    self.axis, self.size = axis, info.sizes[axis]
    self.batches = math.prod(info.sizes[:batch_dims])
    self.outer = math.prod(info.sizes[batch_dims:axis])
    self.count = math.prod(indices.sizes[batch_dims:])
    self.inner = math.prod(info.sizes[axis + 1 :]) * info.dtype.itemsize
    return capsule


# -- gather elements -------------------------------------------------------------------------------


cdef struct pick_state:
    walk route          # operands: input at position 0 of the axis, indices, output
    Element kind
    int axis
    int64_t size
    int64_t step        # bytes along the axis
    int64_t itemsize


cdef void pick_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef pick_state *self = <pick_state *>run.state
    cdef int64_t i, position
    if not go_on(run, n):
        return
    for i in range(n):
        position = resolved(load_position(self.kind, at[1] + i * steps[1]), self.size, self.axis, run)
        if run.code != DOVETAIL_OK:
            return
        memcpy(at[2] + i * steps[2], at[0] + i * steps[0] + position * self.step, self.itemsize)


cdef int execute_pick(void *state, const dovetail_call *call) noexcept nogil:
    return run_errand(&(<pick_state *>state).route, pick_row, state, call)


cdef object _create_gather_elements(object descriptor, object info, object indices):
    capsule = new_workload(execute_pick, sizeof(pick_state))
    cdef pick_state *self = <pick_state *>state_of(capsule)
    axis, itemsize = descriptor.axis % info.rank, info.dtype.itemsize
    strides = contiguous(info.sizes, itemsize)
    fixed = strides[:axis] + (0,) + strides[axis + 1 :]
    self.kind, self.axis, self.itemsize = element_of(indices.dtype), axis, itemsize
    self.size, self.step = info.sizes[axis], strides[axis]
    by_operand = (fixed, contiguous(indices.sizes, indices.dtype.itemsize), contiguous(indices.sizes, itemsize))
    plan_walk(&self.route, indices.sizes, by_operand)
    return capsule


# -- gather slices by position over several axes ---------------------------------------------------


cdef struct gather_nd_state:
    named_axes axes
    int64_t batches
    int64_t count       # positions per batch
    int64_t batch_bytes # of the input
    int64_t inner       # bytes of a slice


cdef void release_gather_nd(void *state) noexcept nogil:
    free_axes(&(<gather_nd_state *>state).axes)
    free(state)


cdef int execute_gather_nd(void *state, const dovetail_call *call) noexcept nogil:
    cdef gather_nd_state *self = <gather_nd_state *>state
    cdef const char *source = <const char *>tensor_data(&call.inputs[0])
    cdef const char *indices = <const char *>tensor_data(&call.inputs[1])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t batch, i, offset
    cdef errand run = new_errand(call)
    for batch in range(self.batches):
        for i in range(self.count):
            offset = batch * self.batch_bytes + named_offset(&self.axes, indices, &run)
            if not go_on(&run, 16):
                return run.code
            copy_bytes(target, source + offset, self.inner, &run)
            indices += self.axes.depth * self.axes.index_bytes
            target += self.inner
    return run.code


cdef object _create_gather_nd(object descriptor, object info, object indices):
    capsule = new_workload(execute_gather_nd, sizeof(gather_nd_state), release_gather_nd)
    cdef gather_nd_state *self = <gather_nd_state *>state_of(capsule)
    batch_dims, itemsize = descriptor.batch_dims, info.dtype.itemsize
    depth = indices.sizes[indices.rank - 1]
    name_axes(&self.axes, indices, info.sizes, contiguous(info.sizes, itemsize), batch_dims, depth)
    self.batches = math.prod(info.sizes[:batch_dims])
    self.count = math.prod(indices.sizes[batch_dims : indices.rank - 1])
    self.batch_bytes = math.prod(info.sizes[batch_dims:]) * itemsize
    self.inner = math.prod(info.sizes[batch_dims + depth :]) * itemsize
    return capsule


# -- one hot ---------------------------------------------------------------------------------------


cdef struct one_hot_state:
    Element kind        # of the indices
    int64_t index_bytes
    int64_t itemsize
    int64_t outer, depth, inner


cdef int execute_one_hot(void *state, const dovetail_call *call) noexcept nogil:
    cdef one_hot_state *self = <one_hot_state *>state
    cdef const char *indices = <const char *>tensor_data(&call.inputs[0])
    cdef const char *off = <const char *>tensor_data(&call.inputs[1])
    cdef const char *on = off + self.itemsize
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t o, d, i, position
    cdef errand run = new_errand(call)
    for o in range(self.outer):
        for d in range(self.depth):
            for i in range(self.inner):
                load_wholes(self.kind, indices + (o * self.inner + i) * self.index_bytes, 0, 1, &position)
                if not go_on(&run, 8):
                    return run.code
                memcpy(target, on if position == d or position == d - self.depth else off, self.itemsize)
                target += self.itemsize
    return DOVETAIL_OK


cdef object _create_one_hot(object descriptor, object indices, object result):
    capsule = new_workload(execute_one_hot, sizeof(one_hot_state))
    cdef one_hot_state *self = <one_hot_state *>state_of(capsule)
    axis = descriptor.axis % result.rank
    self.kind, self.index_bytes, self.itemsize = element_of(indices.dtype), indices.dtype.itemsize, result.dtype.itemsize
    self.outer, self.depth = math.prod(indices.sizes[:axis]), descriptor.depth
    self.inner = math.prod(indices.sizes[axis:])
    return capsule


# -- triangles -------------------------------------------------------------------------------------


cdef struct trilu_state:
    int64_t itemsize
    int64_t matrices, rows, columns
    int64_t k
    bint upper


cdef int execute_trilu(void *state, const dovetail_call *call) noexcept nogil:
    cdef trilu_state *self = <trilu_state *>state
    cdef const char *source = <const char *>tensor_data(&call.inputs[0])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t row, first, last, width = self.columns * self.itemsize
    cdef errand run = new_errand(call)
    for row in range(self.matrices * self.rows):
        # Columns [first, last) are kept.
        if self.upper:
            first, last = min(max(row % self.rows + self.k, 0), self.columns), self.columns
        else:
            first, last = 0, min(max(row % self.rows + self.k + 1, 0), self.columns)
        if not go_on(&run, 16):
            return run.code
        copy_bytes(target + first * self.itemsize, source + first * self.itemsize, (last - first) * self.itemsize, &run)
        clear_bytes(target, first * self.itemsize, &run)
        clear_bytes(target + last * self.itemsize, (self.columns - last) * self.itemsize, &run)
        source += width
        target += width
    return run.code


cdef object _create_trilu(object descriptor, object info):
    capsule = new_workload(execute_trilu, sizeof(trilu_state))
    cdef trilu_state *self = <trilu_state *>state_of(capsule)
    rows, columns = info.sizes[info.rank - 2], info.sizes[info.rank - 1]
    self.itemsize, self.rows, self.columns = info.dtype.itemsize, rows, columns
    self.matrices = math.prod(info.sizes[: info.rank - 2])
    # Beyond the matrix k changes nothing more; clamped, no sum with it overflows.
    self.k, self.upper = min(max(descriptor.k, -rows - columns), rows + columns), descriptor.upper
    allow_in_place(capsule)
    return capsule
