"""Depthwise convolution and pooling of quantized images."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport fill_window
from dovetail_neon.quantized.parameters cimport acc_quantized_kernels, acc_quantized_windows
from dovetail_neon.quantized.requantization cimport BLOCK, SLACK, UNIT_BYTES, kept, outside, requantize, shift_of, unit_of
from dovetail_neon.workload.making cimport Block, Kernels, Workload, new_block, new_workload, parts

import numpy as np

from dovetail_neon.geometry.layouts import pixel_bytes


cdef enum:
    LONG_WORK = 1 << 20         # elements that a row of results is made of: the stop word is read within it


cdef acc_quantized_windows *describe(Workload workload, object d) except NULL:
    """Fill in the sizes of a layer of windows with the descriptor `d`."""
    cdef acc_quantized_windows *w = <acc_quantized_windows *>workload.state.parameters
    w.images, w.channels = d.source[0], d.source[1]
    fill_window(&w.window, d)
    w.step = pixel_bytes(w.channels)
    w.polls = <double>w.window.out_width * w.step * w.window.kernel_height * w.window.kernel_width > LONG_WORK
    return w


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `DepthwiseQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_windows), 1, 1)
    cdef acc_quantized_windows *w = describe(workload, d)
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef int unit = unit_of(kernels, d.weights)
    dtype = layer.output.info.dtype
    requantize(workload, &w.result, d, dtype, 1, kernels)
    w.outside = outside(workload, w.step, 1, d.zeros[0] + shift_of(kernels, dtype))
    cdef int depth = 4 if unit else 2
    w.stacks = parts(w.window.kernel_height, depth)
    w.together = 2 if w.window.kernel_height % depth and w.window.stride_y == 1 == w.window.dilation_y else 1
    w.columns = (w.window.out_width - 1) * w.window.stride_x + (w.window.kernel_width - 1) * w.window.dilation_x + 1
    cdef int64_t blocks = parts(w.channels, BLOCK)
    weights = d.weights
    if weights.dtype != np.int16 or weights.shape != (w.channels, w.window.kernel_height * w.window.kernel_width):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {layer.name!r}")
    cdef int64_t tap_step = weights.strides[1] // 2
    form = "depthwise", unit, w.channels, w.window.kernel_height, w.window.kernel_width, w.together
    w.weights = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    if w.weights == NULL:
        block = new_block(blocks * w.together * w.stacks * w.window.kernel_width * BLOCK * UNIT_BYTES)
        table.pack_windows[unit](
            <const int16_t *><size_t>weights.__array_interface__["data"][0], weights.strides[0] // 2, tap_step * w.window.kernel_width,
            tap_step, w.channels, w.window.kernel_height, w.window.kernel_width, w.together, <char *>block.data)
        w.weights = <char *>workload.share(kernels.constants, block, weights, form, layer.name)
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    workload.state.per_worker = w.columns * w.stacks * BLOCK * UNIT_BYTES
    rows = w.images * parts(w.window.out_height, w.together)
    cost = w.columns * w.stacks + w.together * w.window.out_width * (1.0 + 0.3 * w.stacks * w.window.kernel_width)
    workload.phase(table.depthwise[unit], rows, rows * blocks * cost)
    return workload.capsule()


def create_pool(layer, Kernels kernels):
    """Return the workload of a `PoolQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_windows), 1, 1)
    cdef acc_quantized_windows *w = describe(workload, d)
    w.offset = shift_of(kernels, layer.output.info.dtype)
    w.pad = d.zero
    if d.counts is not None:
        w.counts = <const int32_t *>kept(workload, d.counts.astype(np.int32, copy=False))
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    rows = w.images * w.window.out_height
    cost = rows * w.window.out_width * parts(w.channels, BLOCK) * (2.0 + w.window.kernel_height * w.window.kernel_width)
    workload.phase(kernels.quantized.maximum if d.counts is None else kernels.quantized.average, rows, cost)
    return workload.capsule()
