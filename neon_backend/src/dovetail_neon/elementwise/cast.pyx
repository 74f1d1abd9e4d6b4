"""From one element type to another."""

from dovetail_neon.elementwise.parameters cimport ACC_BOOL, ACC_FLOAT32, ACC_FLOAT64, ACC_INT8, ACC_INT16, ACC_INT32, ACC_INT64
from dovetail_neon.elementwise.parameters cimport ACC_UINT8, ACC_UINT16
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload

from dovetail import DType

from dovetail_neon.movement.images import create_view

CODES = {
    DType.BOOL: ACC_BOOL,
    DType.INT8: ACC_INT8,
    DType.UINT8: ACC_UINT8,
    DType.INT16: ACC_INT16,
    DType.UINT16: ACC_UINT16,
    DType.INT32: ACC_INT32,
    DType.INT64: ACC_INT64,
    DType.FLOAT32: ACC_FLOAT32,
    DType.FLOAT64: ACC_FLOAT64,
}


def create(layer, Kernels kernels):
    """Return the workload of a `Cast`; to the same type it is a view."""
    info, result = layer.inputs[0].info, layer.output.info
    if info.dtype is result.dtype:
        return create_view(layer, kernels)
    cdef Workload workload = new_workload(1, 1, 1)
    cdef int source = CODES[info.dtype], target = CODES[result.dtype]
    workload.phase(kernels.table.cast.between[source][target], info.elements, info.elements * 0.7, 64)
    return workload.capsule()
