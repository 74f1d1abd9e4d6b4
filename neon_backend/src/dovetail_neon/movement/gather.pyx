"""Slices by positions that come as data."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_FAILED, DOVETAIL_WORKLOAD_CAPSULE, dovetail_call, dovetail_execute
from dovetail.abi cimport dovetail_workload, tensor_data
from dovetail_neon.movement.parameters cimport acc_gather
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload
from dovetail_neon.workload.workload cimport acc_state

import math


cdef enum:
    MAX_POSITIONS = 1 << 20    # that are looked at before the stop word is

cdef struct GatherState:
    acc_gather gather      # the kernel's: it comes first
    int64_t (*first_outside)(const acc_gather *self, const void *positions) noexcept nogil
    dovetail_execute run


cdef int execute_gather(void *state, const dovetail_call *call) noexcept nogil:
    """Look at all positions first: a kernel cannot fail."""
    cdef const GatherState *self = <const GatherState *>(<acc_state *>state).parameters
    cdef const void *positions = tensor_data(&call.inputs[1])
    cdef int64_t i = -1, done = 0, position
    cdef char message[128]
    cdef acc_gather part = self.gather
    while i < 0 and done < self.gather.total:
        if done and call.host.is_cancelled(call):
            return DOVETAIL_CANCELLED
        part.total = min(self.gather.total - done, <int64_t>MAX_POSITIONS)
        i = self.first_outside(&part, <const char *>positions + done * (8 if self.gather.wide else 4))
        i = i + done if i >= 0 else i
        done += part.total
    if self.gather.inner and self.gather.outer and i >= 0:
        position = (<const int64_t *>positions)[i] if self.gather.wide else (<const int32_t *>positions)[i]
        snprintf(message, sizeof(message), "index %lld is out of range for axis %d of size %lld", <long long>position,
                 <int>self.gather.axis, <long long>self.gather.size)
        return call.host.fail(call, DOVETAIL_FAILED, message)
    return self.run(state, call)


def create(layer, Kernels kernels):
    """Return the workload of a `Gather`; a position out of range fails the run."""
    info, indices, d = layer.inputs[0].info, layer.inputs[1].info, layer.descriptor
    cdef Workload workload = new_workload(sizeof(GatherState), 2, 1)
    cdef GatherState *state = <GatherState *>workload.state.parameters
    cdef acc_gather *s = &state.gather
    cdef dovetail_workload *made
    s.axis = d.axis % info.rank
    s.outer = math.prod(info.sizes[d.batch_dims : s.axis])
    s.size = info.sizes[s.axis]
    s.count, s.total = math.prod(indices.sizes[d.batch_dims :]), indices.elements
    s.inner = math.prod(info.sizes[s.axis + 1 :]) * info.dtype.itemsize
    s.wide = indices.dtype.itemsize == 8
    s.chunks = max(1, s.inner // 16384)
    rows = s.total * s.outer if s.inner else 0
    items = rows * s.chunks
    workload.phase(kernels.table.movement.gather, items, rows * (3.0 + s.inner * 0.08))
    state.first_outside = kernels.table.movement.first_outside
    capsule = workload.capsule()
    made = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
    state.run, made.execute = made.execute, execute_gather
    return capsule
