"""Reductions of quantized images: what their pixels come to."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_quantized_reduction
from dovetail_neon.quantized.requantization cimport BLOCK, shift_of
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

from dovetail_neon.geometry.layouts import pixel_bytes


def create(layer, Kernels kernels):
    """Return the workload of a `ReduceQuantized`."""
    d, dtype = layer.descriptor, layer.output.info.dtype
    cdef Workload workload = new_workload(sizeof(acc_quantized_reduction), 1, 1)
    cdef acc_quantized_reduction *r = <acc_quantized_reduction *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, dtype)
    r.images, r.channels, height, width = d.source
    r.pixels, r.step = height * width, pixel_bytes(r.channels)
    sums = d.function == "sum"
    cdef int64_t offset = (d.zeros[0] + shift) * (r.pixels if sums else 1)
    r.offset, r.factor, r.zero = <int32_t>offset, d.factor, d.zeros[1] + shift
    low = -128 if dtype.is_signed else 0
    r.low, r.high = low + shift, low + 255 + shift
    items = r.images * parts(r.channels, BLOCK)
    if sums:
        workload.phase(kernels.quantized.reduce_sum, items, items * (4.0 + r.pixels))
    elif d.function == "max":
        workload.phase(kernels.quantized.reduce_maximum, items, items * (4.0 + r.pixels))
    else:
        workload.phase(kernels.quantized.reduce_minimum, items, items * (4.0 + r.pixels))
    return workload.capsule()
