"""Depthwise convolution of quantized images."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport acc_window, fill_window
from dovetail_neon.quantized.frame cimport cut, frame_pixels, reach
from dovetail_neon.quantized.parameters cimport acc_quantized_depthwise
from dovetail_neon.quantized.requantization cimport CHUNK_NANOSECONDS, CHUNKS_PER_WORKER, MAX_CHUNKS, SLACK, UNIT_BYTES
from dovetail_neon.quantized.requantization cimport address_of, check_weights, requantize, shift_of, shorts, unit_of
from dovetail_neon.workload.making cimport Block, Kernels, Workload, chunks_of, new_block, new_workload, parts

import math

import numpy as np

from dovetail_neon.geometry.layouts import pixel_bytes


cdef enum:
    FRAME_BYTES = 1 << 16       # that are read while they are in a near cache
    MAX_STACKED = 1 << 10      # pixels of a row of stacks
    LONG_WORK = 1 << 20         # products of a row of results: the stop word is read within it
    LANE_BYTES = 16             # that are interleaved as one


def channels_of_words(int64_t channels, int64_t step, int64_t group, bint flat, int64_t element):
    """Return the channel of every word of the groups of all phases, or -1: [phases, words].

    `flat`: groups go on from pixel to pixel; else each phase begins at every pixel. A group of
    elements of so many bytes lies in as many registers.
    """
    cdef int64_t lanes = group // 4, of_register = 4 // element     # vectors that are interleaved
    lane, vector = np.arange(lanes), np.arange(4)[:, None]
    of_group = group // element * (vector // of_register) + LANE_BYTES // element * (lane // 4) + 4 * (vector % of_register) + lane % 4
    phases = math.lcm(step, group) // group if flat else parts(step, group)
    place = np.arange(phases)[:, None] * group + of_group.reshape(-1)
    channel = place % step if flat else place
    return np.where(channel < channels, channel, -1)


cdef bint goes_on(int64_t step, int64_t group) except -1:
    """Whether groups had better go on from pixel to pixel.

    Then none is computed in vain, but every pixel is stacked for each. What a group takes, in
    instructions: 72 for two rows of results, 16 for a stack.
    """
    return 72 + 16 * (math.lcm(step, group) // step) < (72 + 16) * parts(step, group) * group / <double>step


cdef object lay_groups(acc_quantized_depthwise *w, object d, int64_t step, int64_t depth, Kernels kernels, int64_t element):
    """Fill in the sizes of a layer with the descriptor `d`, and how its groups go.

    Args:
        w: What is filled in.
        d: `DepthwiseQuantized` or `DepthwiseShorts`.
        step: Elements from pixel to pixel.
        depth: Rows of a stack.
        kernels: Those at hand.
        element: Bytes of an element.

    Returns:
        What `channels_of_words` does.
    """
    cdef acc_window *window = &w.window
    cdef int64_t group = 4 * kernels.lanes
    w.images, w.step = d.source[0], step
    fill_window(window, d)
    w.stacks = parts(window.kernel_height, depth)
    w.together = 2 if window.kernel_height % depth and window.stride_y == 1 == window.dilation_y else 1
    cdef bint flat = window.stride_x == 1 and goes_on(step, group)
    channel_of = np.ascontiguousarray(channels_of_words(d.source[1], step, group, flat, element), np.int64)
    w.phases, w.period = channel_of.shape[0], math.lcm(step, group) // step if flat else 1
    return channel_of


cdef char *pack_depthwise_filters(
    Workload workload, const acc_quantized_depthwise *w, Kernels kernels, object layer, object channel_of, int unit, int64_t element
) except NULL:
    """Pack weights [channels, taps], unless another workload has packed the same."""
    cdef const acc_window *window = &w.window
    cdef int64_t group = 4 * kernels.lanes, tap_step
    d = layer.descriptor
    weights = d.weights
    check_weights(weights, (d.source[1], window.kernel_height * window.kernel_width), layer.name)
    cdef tuple form = ("depthwise", element, w.period, unit, d.source[1], window.kernel_height, window.kernel_width, w.together)
    cdef char *packed = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    if packed != NULL:
        return packed
    wide = shorts(weights)
    tap_step = wide.strides[1] // 2
    block = new_block(w.phases * w.together * w.stacks * window.kernel_width * group * UNIT_BYTES)
    kernels.quantized.pack_depthwise[unit](
        <const int16_t *>address_of(wide), wide.strides[0] // 2, tap_step * window.kernel_width, tap_step,
        <const int64_t *>address_of(channel_of), w.phases, window.kernel_height, window.kernel_width, w.together,
        <char *>block.data)
    return <char *>workload.share(kernels.constants, block, weights, form, layer.name)


cdef int cut_depthwise(
    Workload workload, acc_quantized_depthwise *w, int64_t group, int64_t element, double nanoseconds
) except -1:
    """Cut results into rectangles, and lay out what a worker holds; elements have so many bytes."""
    cdef acc_window *window = &w.window
    cdef int64_t columns
    w.polls = <double>window.out_width * w.step * window.kernel_height * window.kernel_width > LONG_WORK
    cut(window, parts(chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS), w.images), max(FRAME_BYTES // (w.step * element), 1),
        &w.row_bands, &w.column_bands, w.together)
    while parts(window.out_width, w.column_bands) * window.stride_x > MAX_STACKED and w.column_bands < window.out_width:
        w.column_bands = min(2 * w.column_bands, window.out_width)
    # Groups go on beyond the last pixel of a row.
    columns = parts(window.out_width, w.column_bands)
    w.stacked_bytes = (reach(columns, window.stride_x, window.kernel_width, window.dilation_x) + w.period) * w.stacks * group * UNIT_BYTES
    workload.state.per_worker = (
        w.stacked_bytes + (frame_pixels(window, w.row_bands, w.column_bands, w.together) * w.step + group) * element + SLACK)
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `DepthwiseQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_depthwise), 1, 1)
    cdef acc_quantized_depthwise *w = <acc_quantized_depthwise *>workload.state.parameters
    cdef acc_window *window = &w.window
    cdef int unit = unit_of(kernels, d.weights)
    cdef int64_t group = 4 * kernels.lanes
    dtype = layer.output.info.dtype
    w.outside = d.zeros[0] + shift_of(kernels, dtype)
    channel_of = lay_groups(w, d, pixel_bytes(d.source[1]), 4 if unit else 2, kernels, 1)
    requantize(workload, &w.result, d, dtype, 1, kernels, channel_of)
    w.weights = pack_depthwise_filters(workload, w, kernels, layer, channel_of, unit, 1)
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    cdef double groups = <double>w.images * window.out_height * window.out_width * w.step / group
    cdef double nanoseconds = groups * (3 + w.stacks * (1.5 / w.together + window.kernel_width))
    cut_depthwise(workload, w, group, 1, nanoseconds)
    workload.phase(kernels.quantized.depthwise[unit], w.images * w.row_bands * w.column_bands, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
