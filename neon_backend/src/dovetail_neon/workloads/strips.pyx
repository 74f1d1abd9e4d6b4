"""A convolution and the depthwise one that reads it, computed together strip by strip."""

from libc.stdint cimport int64_t

from dovetail_neon.kernels cimport Kernels, neon_strips
from dovetail_neon.workloads cimport convolution, windows
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.workload cimport Workload, new_workload


cdef enum:
    STRIP_BYTES = 384 << 10     # a part of a second cache, which also holds what is read and written meanwhile
    CHUNKS_PER_WORKER = 2       # few: where one ends and another begins, rows are computed twice


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveDepthwise`."""
    d = layer.descriptor
    cdef bint adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(neon_strips), 1 + adds, 1)
    cdef neon_strips *p = <neon_strips *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    cdef int64_t row, reach, vectors
    first, second = d.convolve, d.depthwise
    convolution.describe(workload, &p.convolution, first, layer.name, layer.inputs[0].info, first.infos[0], adds, kernels)
    windows.describe(&p.windows, second, lanes)
    windows.give_filters(workload, &p.windows, second, lanes)
    w = &p.windows
    vectors = parts(p.convolution.group_vector[p.convolution.groups], p.convolution.groups)
    row = vectors * w.in_width * lanes * sizeof(float)
    reach = (w.kernel_height - 1) * w.dilation_y + 1
    p.rows = max(1, (STRIP_BYTES // max(row, 1) - reach) // w.stride_y + 1)
    p.rows = min(p.rows, w.out_height)
    p.bands = w.out_height
    p.strip_rows = (p.rows - 1) * w.stride_y + reach
    workload.state.per_worker = p.strip_rows * row
    items = w.images * p.bands if layer.output.info.nbytes else 0
    nanoseconds = convolution.cost(&p.convolution) + windows.cost(w)
    workload.phase(kernels.table.strips.depthwise, items, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
