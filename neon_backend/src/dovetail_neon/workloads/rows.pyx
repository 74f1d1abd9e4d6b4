"""What is worked out along one axis: softmax and layer normalization."""

from libc.stdint cimport int64_t

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE
from dovetail_neon.interface.rows cimport neon_layer_normalization, neon_softmax
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.workload cimport LONG_ROW, Workload, keep, new_workload

import math

import numpy as np



def create_softmax(layer, Kernels kernels):
    """Return the workload of a `Softmax`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_softmax), 1, 1)
    cdef neon_softmax *s = <neon_softmax *>workload.state.parameters
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


def create_layer_normalization(layer, Kernels kernels):
    """Return the workload of a `LayerNormalization` with constant scale and offset."""
    d = layer.descriptor
    shape = layer.output.info.sizes
    tail = shape[d.axis % len(shape):]
    size = math.prod(tail)
    given = [layer.constant(i) if i < len(layer.inputs) else None for i in (1, 2)]
    scale, offset = (
        np.broadcast_to(np.float32(default) if value is None else value, tail)
        for value, default in zip(given, (1.0, 0.0))
    )
    cdef Workload workload = new_workload(sizeof(neon_layer_normalization), 1, 1)
    cdef neon_layer_normalization *s = <neon_layer_normalization *>workload.state.parameters
    s.size, s.epsilon, s.center = size, d.epsilon, d.center
    s.scale, s.offset = keep(workload, scale), keep(workload, offset)
    rows = math.prod(shape) // size if size else 0
    workload.phase(kernels.table.rows.layer_normalization, rows, rows * size * 0.5)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()
