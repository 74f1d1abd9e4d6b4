"""Convolutions and matrix products of int16 by weights of 8 bits."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport acc_window, acc_window_flatten, acc_window_reaches_out, fill_window
from dovetail_neon.quantized.convolution cimport COPIES_PER_WORKER, LONG_SUM, packed_filters, panels_of, share_out
from dovetail_neon.quantized.depthwise cimport cut_depthwise, goes_on, pack_depthwise_filters
from dovetail_neon.quantized.frame cimport frame_pixels
from dovetail_neon.quantized.parameters cimport ACC_NARROW, ACC_NARROW_REAL, ACC_TIES_AWAY, ACC_TIES_UP, ACC_WIDE, ACC_WIDE_REAL
from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_depthwise, acc_quantized_kernels
from dovetail_neon.quantized.parameters cimport acc_short_convolution, acc_short_depthwise, acc_short_results
from dovetail_neon.quantized.requantization cimport BLOCK, CHUNKS_PER_WORKER, CHUNK_NANOSECONDS, MAX_CHUNKS, SLACK, UNIT_BYTES
from dovetail_neon.quantized.requantization cimport kept, sums_of, unit_of
from dovetail_neon.workload.making cimport Kernels, Workload, chunks_of, new_workload, parts

import math

import numpy as np

cdef enum:
    BYTES_BETWEEN = 1 << 14     # words of bytes whose products 32 bits hold: 4 * 255 * 128 each
    SHORTS_BETWEEN = 1 << 7     # the same of two int16: 2 * 2^15 * 255
    LANE_SHORTS = 8             # that are interleaved as one


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

    Each group has whole blocks of filters; or filters stand in `order`, in which -1 is none.
    """
    filters = d.weights.shape[0]
    of_group = filters // groups
    sums = sums_of(d.weights) * (offset - d.zeros[0])
    if d.bias is not None:
        sums += d.bias
    multipliers, shifts = fixed_point_of(d.factors)
    found = in_doubles(sums, d, math.prod(d.weights.shape[1:]))
    factors, nudges = (np.minimum(d.factors, 2.0**31 - 1), np.zeros(filters)) if found is None else found

    def laid(values, dtype):
        values = np.asarray(values, dtype)
        if order is not None:
            return np.where(order < 0, 0, values[order]).astype(dtype)
        whole = np.zeros((groups, parts(of_group, BLOCK) * BLOCK), dtype)
        whole[:, :of_group] = values.reshape(groups, of_group)
        return whole

    r.bias = <const double *>kept(workload, laid(sums, np.float64))
    r.factors = <const double *>kept(workload, laid(factors, np.float64))
    r.nudges = <const double *>kept(workload, laid(nudges, np.float64))
    r.sums = <const int64_t *>kept(workload, laid(sums, np.int64))
    r.multipliers = <const int32_t *>kept(workload, laid(multipliers, np.int32))
    r.shifts = <const int32_t *>kept(workload, laid(shifts, np.int32))
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
    cdef int64_t planes = 2 if unit else 1, element = 1 if unit else 2      # of a frame
    cdef acc_window *w = &c.window
    if not layer.output.info.elements:
        return workload.capsule()
    c.images, c.groups = d.source[0], d.groups
    fill_window(w, d)
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    c.in_step, c.out_step = d.source[1], d.target[1]
    c.framed, c.outside, c.pixel_step = element, d.zeros[0], c.channels * element
    cdef bint joins = w.kernel_width == 1 or w.dilation_x == 1
    c.runs = 1 if joins else w.kernel_width
    c.units = parts((w.kernel_width if joins else 1) * c.pixel_step, UNIT_BYTES)
    cdef bint single = w.kernel_height * w.kernel_width * w.stride_y * w.stride_x == 1
    if single and w.in_height == w.out_height and w.in_width == w.out_width and not acc_window_reaches_out(w):
        acc_window_flatten(w)
        w.in_width, w.out_width, c.images = c.images * w.in_width, c.images * w.out_width, 1
    cdef int64_t offset = 0     # what bytes that are signed as the instructions want them differ by
    if unit:
        offset = 128 if table.is_signed else -(1 << 15)
    fill_results(workload, &s.result, d, offset, c.groups)
    s.most = BYTES_BETWEEN if unit else SHORTS_BETWEEN
    c.blocks = parts(c.filters, BLOCK)
    c.last_lanes = <int32_t>(c.filters - (c.blocks - 1) * BLOCK)
    cdef int64_t pixels = w.out_height * w.out_width, taps = w.kernel_height * w.kernel_width
    cdef int64_t block_weights = w.kernel_height * c.runs * c.units * BLOCK * UNIT_BYTES
    cdef bint upright = w.out_width == 1
    c.panels = panels_of(
        table, c.blocks, 1 if upright else w.out_height, w.out_height if upright else w.out_width, block_weights, planes)
    c.weights = packed_filters(workload, c, kernels, d.weights, unit, layer.name)
    cdef double products = <double>c.images * pixels * c.groups * c.blocks * w.kernel_height * c.runs * c.units * planes
    cdef double nanoseconds = max(products / (5.0 if table.most_blocks > 1 else 2.0), c.groups * c.blocks * block_weights / 28.0)
    nanoseconds += <double>c.images * pixels * c.groups * c.blocks * BLOCK * 0.4      # of results
    cdef int64_t items = c.images * c.groups * c.panels
    c.polls = taps * c.channels > LONG_SUM
    share_out(
        c, parts(chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS), items), 2 * table.pixels[parts(c.blocks, c.panels)] // planes, 2)
    s.plane = parts(frame_pixels(w, c.row_bands, c.column_bands) * c.pixel_step + SLACK, SLACK) * SLACK
    workload.state.per_worker = planes * s.plane
    cdef double copied = <double>planes * s.plane * c.images * c.groups * c.row_bands * c.column_bands
    workload.phase(
        table.convolve_shorts[unit], items * c.row_bands * c.column_bands,
        nanoseconds + copied * (1 if c.chunks_first else c.panels) * 0.1, 1,
        CHUNKS_PER_WORKER if c.chunks_first else COPIES_PER_WORKER)
    return workload.capsule()


def channels_of_words(int64_t channels, int64_t group, bint flat):
    """Return the channel of every word of the groups of all phases, or -1: [phases, words].

    `flat`: groups go on from pixel to pixel; else each phase begins at every pixel.
    """
    cdef int64_t lanes = group // 4
    lane, vector = np.arange(lanes), np.arange(4)[:, None]
    of_group = 2 * lanes * (vector // 2) + LANE_SHORTS * (lane // 4) + 4 * (vector % 2) + lane % 4
    phases = math.lcm(channels, group) // group if flat else parts(channels, group)
    place = np.arange(phases)[:, None] * group + of_group.reshape(-1)
    channel = place % channels if flat else place
    return np.where(channel < channels, channel, -1)


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `DepthwiseShorts`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_short_depthwise), 1, 1)
    cdef acc_short_depthwise *s = <acc_short_depthwise *>workload.state.parameters
    cdef acc_quantized_depthwise *w = &s.depthwise
    cdef acc_window *window = &w.window
    cdef int64_t channels = d.source[1], group = 4 * kernels.lanes
    if not layer.output.info.elements:
        return workload.capsule()
    w.images, w.step, w.outside = d.source[0], channels, d.zeros[0]
    fill_window(window, d)
    w.stacks = parts(window.kernel_height, 2)
    w.together = 2 if window.kernel_height % 2 and window.stride_y == 1 == window.dilation_y else 1
    cdef bint flat = window.stride_x == 1 and goes_on(channels, group)
    channel_of = np.ascontiguousarray(channels_of_words(channels, group, flat), np.int64)
    w.phases, w.period = channel_of.shape[0], math.lcm(channels, group) // channels if flat else 1
    fill_results(workload, &s.result, d, 0, 1, channel_of)
    w.weights = pack_depthwise_filters(workload, w, kernels, layer, channel_of, 0, ("depthwise of shorts", flat))
    cdef double nanoseconds = <double>w.images * window.out_height * window.out_width * channels / group
    nanoseconds *= 12 + w.stacks * (1.5 / w.together + window.kernel_width)
    cut_depthwise(workload, w, channels, group, sizeof(int16_t), nanoseconds)
    workload.phase(kernels.quantized.depthwise_shorts, w.images * w.row_bands * w.column_bands, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
