"""Convolutions and matrix products of int16 by weights of 8 bits."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport acc_window
from dovetail_neon.quantized.convolution cimport add_phase, lay_filters, lay_windows, products_nanoseconds, share_out
from dovetail_neon.quantized.depthwise cimport cut_depthwise, lay_groups, pack_depthwise_filters
from dovetail_neon.quantized.frame cimport frame_pixels
from dovetail_neon.quantized.parameters cimport ACC_NARROW, ACC_NARROW_REAL, ACC_TIES_AWAY, ACC_TIES_UP, ACC_WIDE, ACC_WIDE_REAL
from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_depthwise, acc_quantized_kernels
from dovetail_neon.quantized.parameters cimport acc_short_convolution, acc_short_depthwise, acc_short_results
from dovetail_neon.quantized.requantization cimport BLOCK, CHUNKS_PER_WORKER, SLACK, kept, laid_out, sums_of, unit_of
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

import math

import numpy as np

cdef enum:
    BYTES_BETWEEN = 1 << 14     # words of bytes whose products 32 bits hold: 4 * 255 * 128 each
    SHORTS_BETWEEN = 1 << 7     # the same of two int16: 2 * 2^15 * 255


cdef double RESULT_NANOSECONDS = 0.4


def fixed_point_of(factors):
    """Return factors as multipliers of 31 bits and shifts (TensorFlow Lite, QuantizeMultiplier)."""
    fractions, shifts = np.frexp(np.minimum(factors, 2.0**31 - 1))
    multipliers = np.floor(fractions * 2.0**31 + 0.5).astype(np.int64)
    over = multipliers == 1 << 31
    multipliers, shifts = np.where(over, 1 << 30, multipliers), shifts + over
    gone = (shifts < -31) | (multipliers == 0)
    return np.where(gone, 0, multipliers), np.where(gone, 0, shifts).astype(np.int64)


def in_doubles(sums, d, terms):
    """Return (factors, nudges) with which doubles have the very results, or None."""
    multipliers, shifts = fixed_point_of(d.factors)
    greatest = 128.0 if d.weights.dtype == np.int8 else 255.0
    most = terms * greatest * (2.0**15 + abs(d.zeros[0])) + np.abs(sums, dtype=np.float64).max(initial=0.0)
    factors, nudges = np.minimum(d.factors, 2.0**31 - 1), np.zeros(d.factors.shape)
    if d.is_fixed:
        right = 15 - shifts
        factors = np.ldexp(np.where(multipliers < 0x7FFF0000, (multipliers + (1 << 15)) >> 16, 0x7FFF).astype(np.float64), -right)
        nudges = np.ldexp(1.0, -right - 1)
        if right.min(initial=1) < 1 or most * 2.0**15 >= 2.0**52:
            return None
    # Sums are put together of what has 16 bits without a sign.
    if d.is_narrow or terms * greatest * 2.0**16 + most >= 2.0**53 or most * factors.max(initial=0.0) >= 2.0**31 - 2.0**17:
        return None
    return factors, nudges


cdef int fill_results(
    Workload workload, acc_short_results *r, object d, int64_t offset, int64_t groups, object order=None
) except -1:
    """Fill in how the sums of a layer become results; elements count `offset` less than they are.

    Filters stand as `laid_out` says.
    """
    sums = sums_of(d.weights) * (offset - d.zeros[0])
    if d.bias is not None:
        sums += d.bias
    multipliers, shifts = fixed_point_of(d.factors)
    found = in_doubles(sums, d, math.prod(d.weights.shape[1:]))
    factors, nudges = (np.minimum(d.factors, 2.0**31 - 1), np.zeros(sums.size)) if found is None else found
    r.bias = <const double *>kept(workload, laid_out(sums, np.float64, groups, order))
    r.factors = <const double *>kept(workload, laid_out(factors, np.float64, groups, order))
    r.nudges = <const double *>kept(workload, laid_out(nudges, np.float64, groups, order))
    r.sums = <const int64_t *>kept(workload, laid_out(sums, np.int64, groups, order))
    r.multipliers = <const int32_t *>kept(workload, laid_out(multipliers, np.int32, groups, order))
    r.shifts = <const int32_t *>kept(workload, laid_out(shifts, np.int32, groups, order))
    r.zero, r.low, r.high = d.zeros[1], d.bounds[0], d.bounds[1]
    if found is not None:
        r.way = ACC_TIES_UP if d.is_fixed else ACC_TIES_AWAY
    elif d.is_fixed:
        r.way = ACC_NARROW if d.is_narrow else ACC_WIDE
    else:
        r.way = ACC_NARROW_REAL if d.is_narrow else ACC_WIDE_REAL
    return 0


def create_convolution(layer, Kernels kernels):
    """Return the workload of a `ConvolveShorts`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_short_convolution), 1, 1)
    cdef acc_short_convolution *s = <acc_short_convolution *>workload.state.parameters
    cdef acc_quantized_convolution *c = &s.convolution
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef int unit = unit_of(kernels, d.weights)
    cdef int64_t planes = 2 if unit else 1      # of a frame
    if not layer.output.info.elements:
        return workload.capsule()
    lay_windows(c, d, d.source[1], d.target[1], 1 if unit else 2, True)
    c.outside = d.zeros[0]
    cdef int64_t offset = 0     # what bytes that are signed as the instructions want them differ by
    if unit:
        offset = 128 if table.is_signed else -(1 << 15)
    fill_results(workload, &s.result, d, offset, c.groups)
    s.most = BYTES_BETWEEN if unit else SHORTS_BETWEEN
    lay_filters(workload, c, kernels, d.weights, unit, layer.name, planes)
    cdef double results = <double>c.images * c.window.out_height * c.window.out_width * c.groups * c.blocks * BLOCK
    cdef double nanoseconds = products_nanoseconds(c, table, planes) + results * RESULT_NANOSECONDS
    share_out(c, table, nanoseconds, planes, sizeof(int16_t))
    s.plane = parts(frame_pixels(&c.window, c.row_bands, c.column_bands) * c.pixel_step + SLACK, SLACK) * SLACK
    workload.state.per_worker = planes * s.plane
    add_phase(workload, c, table.convolve_shorts[unit], nanoseconds, planes * s.plane)
    return workload.capsule()


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `DepthwiseShorts`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_short_depthwise), 1, 1)
    cdef acc_short_depthwise *s = <acc_short_depthwise *>workload.state.parameters
    cdef acc_quantized_depthwise *w = &s.depthwise
    cdef acc_window *window = &w.window
    cdef int64_t group = 4 * kernels.lanes
    if not layer.output.info.elements:
        return workload.capsule()
    w.outside = d.zeros[0]
    channel_of = lay_groups(w, d, d.source[1], 2, kernels, sizeof(int16_t))
    fill_results(workload, &s.result, d, 0, 1, channel_of)
    w.weights = pack_depthwise_filters(workload, w, kernels, layer, channel_of, 0, sizeof(int16_t))
    cdef double nanoseconds = <double>w.images * window.out_height * window.out_width * w.step / group
    nanoseconds *= 12 + w.stacks * (1.5 / w.together + window.kernel_width)
    cut_depthwise(workload, w, group, sizeof(int16_t), nanoseconds)
    workload.phase(kernels.quantized.depthwise_shorts, w.images * w.row_bands * w.column_bands, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
