"""Quantized tensors element by element: sums, the ways in and out of bytes, and of integers."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_quantize, acc_quantized_reorder, acc_quantized_sum
from dovetail_neon.quantized.requantization cimport BLOCK, shift_of
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_PLANE, Kernels, Workload, new_workload

from dovetail_neon.geometry.layouts import pixel_bytes


def create_sum(layer, Kernels kernels):
    """Return the workload of an `AddQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_sum), 2, 1)
    cdef acc_quantized_sum *s = <acc_quantized_sum *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    s.a, s.b = d.factors
    s.zero_a, s.zero_b, s.zero = d.zeros[0] + shift, d.zeros[1] + shift, d.zeros[2] + shift
    s.low, s.high = d.bounds[0] + shift, d.bounds[1] + shift
    workload.phase(kernels.quantized.sum, s.count // BLOCK, s.count * 0.15, 4)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_reorder(layer, Kernels kernels):
    """Return the workload of a `ReorderQuantized`."""
    d, info = layer.descriptor, layer.output.info
    cdef Workload workload = new_workload(sizeof(acc_quantized_reorder), 1, 1)
    cdef acc_quantized_reorder *r = <acc_quantized_reorder *>workload.state.parameters
    r.images, r.channels, height, width = d.image
    r.pixels = height * width
    r.step = pixel_bytes(r.channels)
    r.channels_last = d.channels_last
    r.flip = info.dtype.is_signed != bool(kernels.quantized.is_signed)
    r.chunks = max(1, min(32, r.pixels // 256), r.pixels // LONG_PLANE)
    nanoseconds = r.images * r.pixels * r.channels * 0.1
    body = kernels.quantized.from_image if info.opaque is None else kernels.quantized.to_image
    workload.phase(body, r.images * r.chunks, nanoseconds)
    return workload.capsule()


def create_quantize(layer, Kernels kernels):
    """Return the workload of a `Quantize` or `Dequantize` with one scale."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantize), 1, 1)
    cdef acc_quantize *q = <acc_quantize *>workload.state.parameters
    into = layer.output.info.dtype.is_integer
    q.scale, q.zero = d.quantization.scale[0], d.quantization.zero_point[0]
    q.is_signed = layer.output.info.dtype.is_signed if into else layer.inputs[0].info.dtype.is_signed
    count = layer.output.info.elements
    workload.phase(kernels.quantized.quantize if into else kernels.quantized.dequantize, count, count * 0.3, 64)
    return workload.capsule()
