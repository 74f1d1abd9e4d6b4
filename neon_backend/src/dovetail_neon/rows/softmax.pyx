"""Softmax along one axis."""

from libc.stdint cimport int64_t

from dovetail_neon.rows.parameters cimport acc_softmax
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_ROW, Kernels, Workload, new_workload

import math


def create(layer, Kernels kernels):
    """Return the workload of a `Softmax`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_softmax), 1, 1)
    cdef acc_softmax *s = <acc_softmax *>workload.state.parameters
    shape = layer.output.info.sizes
    axis = d.axis % len(shape)
    s.outer, s.size, s.inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])
    s.beta, s.logarithm = d.beta, d.log
    s.chunks = max(1, min(s.inner // 64, 16), s.inner // LONG_ROW)
    nanoseconds = math.prod(shape) * 1.0
    if math.prod(shape) == 0:
        return workload.capsule()
    if s.inner == 1:
        workload.phase(kernels.table.rows.softmax, s.outer, nanoseconds)
    else:
        workload.phase(kernels.table.rows.softmax_across, s.outer * s.chunks, nanoseconds)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()
