"""Quantized tensors element by element: sums, products, tables, the ways in and out of integers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.quantized.parameters cimport acc_quantize, acc_quantized_kernels, acc_quantized_reorder
from dovetail_neon.quantized.parameters cimport acc_quantized_prelu, acc_quantized_sum, acc_quantized_table
from dovetail_neon.quantized.requantization cimport BLOCK, shift_of
from dovetail_neon.quantized.scales cimport fixed_point
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_PLANE, Kernels, Workload, new_workload

from dovetail.layers import TieRounding

from dovetail_neon.geometry.layouts import pixel_bytes


cdef object combined(object layer, Kernels kernels, tuple factors, zeros, bounds, dovetail_body body):
    """Return the workload of an operation on two tensors of one layout in bytes."""
    cdef Workload workload = new_workload(sizeof(acc_quantized_sum), 2, 1)
    cdef acc_quantized_sum *s = <acc_quantized_sum *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    s.a, s.b = factors
    s.zero_a, s.zero_b, s.zero = zeros[0] + shift, zeros[1] + shift, zeros[2] + shift
    s.low, s.high = bounds[0] + shift, bounds[1] + shift
    workload.phase(body, s.count // BLOCK, s.count * 0.15, 4)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_sum(layer, Kernels kernels):
    """Return the workload of an `AddQuantized`."""
    d = layer.descriptor
    return combined(layer, kernels, d.factors, d.zeros, d.bounds, kernels.quantized.sum)


def create_product(layer, Kernels kernels):
    """Return the workload of a `MultiplyQuantized`."""
    d = layer.descriptor
    return combined(layer, kernels, (d.factor, 0.0), d.zeros, d.bounds, kernels.quantized.product)


def create_extreme(layer, Kernels kernels):
    """Return the workload of an `ExtremeQuantized`."""
    body = kernels.quantized.greater if layer.descriptor.greater else kernels.quantized.lesser
    return combined(layer, kernels, (0.0, 0.0), (0, 0, 0), (0, 0), body)


def create_prelu(layer, Kernels kernels):
    """Return the workload of a `PreluQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_prelu), 2, 1)
    cdef acc_quantized_prelu *s = <acc_quantized_prelu *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    s.above, s.below = fixed_point(d.above), fixed_point(d.below)
    s.zero_x, s.zero_slope, s.zero = d.zeros[0] + shift, d.zeros[1] + shift, d.zeros[2] + shift
    s.low = -128 if kernels.quantized.is_signed else 0
    s.high = s.low + 255
    workload.phase(kernels.quantized.prelu, s.count // BLOCK, s.count * 1.0)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_map(layer, Kernels kernels):
    """Return the workload of a `MapQuantized`."""
    info, table = layer.output.info, layer.descriptor.table
    cdef Workload workload = new_workload(sizeof(acc_quantized_table), 1, 1)
    cdef acc_quantized_table *t = <acc_quantized_table *>workload.state.parameters
    cdef int byte
    # Images hold bytes of the other signedness than the tensor, or the same.
    cdef uint8_t sign = 0x80 if info.opaque is not None and info.dtype.is_signed != bool(kernels.quantized.is_signed) else 0
    for byte in range(256):
        t.bytes[byte ^ sign] = <uint8_t>table[byte] ^ sign
    workload.phase(kernels.quantized.look_up, info.nbytes, info.nbytes * 0.15, 64)
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
    """Return the workload of a `Quantize` or `Dequantize` with one scale, of bytes or of int16."""
    d = layer.descriptor
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef Workload workload = new_workload(sizeof(acc_quantize), 1, 1)
    cdef acc_quantize *q = <acc_quantize *>workload.state.parameters
    into = layer.output.info.dtype.is_integer
    integers = layer.output.info.dtype if into else layer.inputs[0].info.dtype
    q.scale, q.zero = d.quantization.scale[0], d.quantization.zero_point[0]
    q.is_signed = integers.is_signed
    q.away = into and d.rounding is TieRounding.AWAY_FROM_ZERO
    count = layer.output.info.elements
    if integers.itemsize == 1:
        workload.phase(table.quantize if into else table.dequantize, count, count * 0.3, 64)
    else:
        workload.phase(table.quantize_shorts if into else table.dequantize_shorts, count, count * 0.3, 64)
    return workload.capsule()
