"""From one element type to another."""

from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.workload cimport Workload, new_workload

from dovetail_neon.moved import CAST_TYPES

from .images import create_view


def create(layer, Kernels kernels):
    """Return the workload of a `Cast`; to the same type it is a view."""
    info, result = layer.inputs[0].info, layer.output.info
    if info.dtype is result.dtype:
        return create_view(layer, kernels)
    cdef Workload workload = new_workload(1, 1, 1)
    cdef int source = CAST_TYPES.index(info.dtype), target = CAST_TYPES.index(result.dtype)
    workload.phase(kernels.table.cast.between[source][target], info.elements, info.elements * 0.7, 64)
    return workload.capsule()
