"""Between plain images and blocked ones."""

from libc.stdint cimport int64_t

from dovetail_neon.movement.parameters cimport acc_reorder
from dovetail_neon.workload.making cimport LONG_PLANE, Kernels, Workload, new_workload, parts


def create(layer, Kernels kernels):
    """Return the workload of a `Reorder`: to a blocked output, else from a blocked input."""
    cdef Workload workload = new_workload(sizeof(acc_reorder), 1, 1)
    cdef acc_reorder *r = <acc_reorder *>workload.state.parameters
    table = kernels.table.reorder
    r.images, r.channels, height, width = layer.descriptor.image
    r.pixels = height * width
    nanoseconds = layer.output.info.nbytes / 8
    planes = r.images * parts(r.channels, kernels.table.lanes)
    r.chunks = max(1, min(parts(32, max(planes, 1)), r.pixels // 64), r.pixels // LONG_PLANE)
    if layer.output.info.opaque is not None:
        body = table.blocked_of_nhwc if layer.descriptor.channels_last else table.blocked_of_nchw
    else:
        body = table.nhwc_of_blocked if layer.descriptor.channels_last else table.nchw_of_blocked
    workload.phase(body, planes * r.chunks, nanoseconds)
    return workload.capsule()
