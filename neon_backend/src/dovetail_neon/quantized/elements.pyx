"""Quantized tensors element by element: sums, products, tables, the ways in and out of integers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.quantized.parameters cimport acc_quantize, acc_quantized_entry, acc_quantized_kernels, acc_quantized_reorder
from dovetail_neon.quantized.parameters cimport acc_quantized_prelu, acc_quantized_second, acc_quantized_sum, acc_quantized_table
from dovetail_neon.quantized.requantization cimport BLOCK, kept, shift_of
from dovetail_neon.quantized.scales cimport fixed_point
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_PLANE, Kernels, Workload, new_workload

import numpy as np

from dovetail.layers import TieRounding

from dovetail_neon.geometry.layouts import pixel_bytes


cdef int fill_second(Workload workload, acc_quantized_second *second, layer, Kernels kernels) except -1:
    """Keep the second of two tensors, if it is constant, as signed as the first inside images."""
    constants = layer.descriptor.constants
    if constants is not None:
        is_flipped = layer.output.info.dtype.is_signed != bool(kernels.quantized.is_signed)
        second.constants = kept(workload, constants.view(np.uint8) ^ np.uint8(0x80 if is_flipped else 0))
        second.period = constants.size
    return 0


cdef object combined(object layer, Kernels kernels, tuple factors, zeros, bounds, dovetail_body body):
    """Return the workload of an operation on two tensors of one layout in bytes."""
    cdef Workload workload = new_workload(sizeof(acc_quantized_sum), len(layer.inputs), 1)
    cdef acc_quantized_sum *s = <acc_quantized_sum *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    fill_second(workload, &s.second, layer, kernels)
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
    cdef Workload workload = new_workload(sizeof(acc_quantized_prelu), len(layer.inputs), 1)
    cdef acc_quantized_prelu *s = <acc_quantized_prelu *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    fill_second(workload, &s.second, layer, kernels)
    s.above, s.below = fixed_point(d.above), fixed_point(d.below)
    s.zero_x, s.zero_slope, s.zero = d.zeros[0] + shift, d.zeros[1] + shift, d.zeros[2] + shift
    s.low = -128 if kernels.quantized.is_signed else 0
    s.high = s.low + 255
    workload.phase(kernels.quantized.prelu, s.count // BLOCK, s.count * 0.3, 4)
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


cdef int fill_order(acc_quantized_reorder *r, object image, bint channels_last, bint is_signed, Kernels kernels) except -1:
    """Describe between which layouts elements of a type go, and how they are shared out."""
    r.images, r.channels, height, width = image
    r.pixels = height * width
    r.step = pixel_bytes(r.channels)
    r.channels_last = channels_last or r.pixels == 1
    r.flip = is_signed != bool(kernels.quantized.is_signed)
    r.chunks = max(1, min(32, r.pixels // 256), r.pixels // LONG_PLANE)
    return 0


def create_reorder(layer, Kernels kernels):
    """Return the workload of a `ReorderQuantized`."""
    d, info = layer.descriptor, layer.output.info
    cdef Workload workload = new_workload(sizeof(acc_quantized_reorder), 1, 1)
    cdef acc_quantized_reorder *r = <acc_quantized_reorder *>workload.state.parameters
    fill_order(r, d.image, d.channels_last, info.dtype.is_signed, kernels)
    nanoseconds = r.images * r.pixels * r.channels * 0.1
    body = kernels.quantized.from_image if info.opaque is None else kernels.quantized.to_image
    workload.phase(body, r.images * r.chunks, nanoseconds)
    return workload.capsule()


def create_entry(layer, Kernels kernels):
    """Return the workload of a `QuantizeImage`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_entry), 1, 1)
    cdef acc_quantized_entry *entry = <acc_quantized_entry *>workload.state.parameters
    fill_order(&entry.order, d.image, d.channels_last, layer.output.info.dtype.is_signed, kernels)
    fill_quantize(&entry.quantize, d.quantization, layer.output.info.dtype, d.rounding)
    workload.phase(
        kernels.quantized.quantize_image, entry.order.images * entry.order.chunks,
        entry.order.images * entry.order.pixels * entry.order.channels * 0.2)
    return workload.capsule()


cdef int fill_quantize(acc_quantize *q, object quantization, object integers, object rounding) except -1:
    """Describe how floats become integers of a type, or those floats again."""
    q.scale, q.zero = quantization.scale[0], quantization.zero_point[0]
    q.is_signed = integers.is_signed
    q.away = rounding is TieRounding.AWAY_FROM_ZERO
    return 0


def create_quantize(layer, Kernels kernels):
    """Return the workload of a `Quantize` or `Dequantize` with one scale, of bytes or of int16."""
    d = layer.descriptor
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef Workload workload = new_workload(sizeof(acc_quantize), 1, 1)
    into = layer.output.info.dtype.is_integer
    integers = layer.output.info.dtype if into else layer.inputs[0].info.dtype
    fill_quantize(<acc_quantize *>workload.state.parameters, d.quantization, integers, d.rounding if into else None)
    count = layer.output.info.elements
    if integers.itemsize == 1:
        workload.phase(table.quantize if into else table.dequantize, count, count * 0.3, 64)
    else:
        workload.phase(table.quantize_shorts if into else table.dequantize_shorts, count, count * 0.3, 64)
    return workload.capsule()
