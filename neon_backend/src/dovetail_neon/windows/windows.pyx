"""Depthwise convolution and pooling of blocked images."""

from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.geometry.window cimport fill_window
from dovetail_neon.windows.parameters cimport acc_windows
from dovetail_neon.workload.making cimport Kernels, Workload, keep, keep_packed, new_workload, parts

import numpy as np

from dovetail.ground.pieces import put

from dovetail_neon.geometry.layouts import blocks

cdef enum:
    MIN_ROWS = 8              # that are shared out as a convolution shares them: a thread reads what it has just written
    CHUNKS_PER_WORKER = 2       # few: rows where one ends and another begins are read twice
    LONG_ITEM = 100_000          # nanoseconds: the stop word is read within items that take longer


cdef int describe(acc_windows *w, object d, int lanes) except -1:
    """Fill in the sizes of a `Depthwise` or `Pool` with the descriptor `d`."""
    fill_window(&w.window, d)
    w.images, w.channels, w.blocks = d.source[0], d.source[1], blocks(d.source[1], lanes)
    w.polls = w.blocks * w.window.out_width * (1.0 + 0.2 * w.window.kernel_height * w.window.kernel_width) > LONG_ITEM
    return 0


cdef double cost(const acc_windows *w) noexcept:
    """Estimate the nanoseconds that one thread takes."""
    return <double>w.images * w.blocks * w.window.out_height * w.window.out_width * (1.0 + 0.2 * w.window.kernel_height * w.window.kernel_width)


cdef int place(Workload workload, layer, int lanes) except -1:
    """Fill in sizes; say how the rows of a block are shared out."""
    cdef acc_windows *w = <acc_windows *>workload.state.parameters
    describe(w, layer.descriptor, lanes)
    w.by_rows = w.window.out_height >= MIN_ROWS
    return 0


cdef int give_filters(Workload workload, acc_windows *w, object d, object name, Kernels kernels) except -1:
    """Pack the weights and the bias of a `Depthwise`."""
    channels, taps, lanes = d.source[1], w.window.kernel_height * w.window.kernel_width, kernels.table.lanes
    form = "depthwise", channels, taps
    w.weights = <const float *>workload.packed_before(kernels.constants, d.weights, form)
    if w.weights == NULL:
        whole = np.zeros((w.blocks * lanes, taps), np.float32)
        put(whole[:channels], d.weights)
        packed = whole.reshape(w.blocks, lanes, taps).transpose(0, 2, 1)
        w.weights = keep_packed(workload, kernels.constants, packed, d.weights, form, name)
    bias = np.zeros(w.blocks * lanes, np.float32)
    if d.bias is not None:
        put(bias[:channels], d.bias)
    w.bias = keep(workload, bias)
    w.activation.function, w.activation.a, w.activation.b = d.function
    return 0


cdef int loop(Workload workload, dovetail_body body, int lanes) except -1:
    w = <acc_windows *>workload.state.parameters
    items = w.images * (w.window.out_height if w.by_rows else w.blocks) if w.blocks and w.window.out_height * w.window.out_width else 0
    workload.phase(body, items, cost(w), 1, CHUNKS_PER_WORKER)
    return 0


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `Depthwise`: one filter per channel."""
    cdef Workload workload = new_workload(sizeof(acc_windows), 1, 1)
    cdef acc_windows *w = <acc_windows *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    place(workload, layer, lanes)
    give_filters(workload, w, layer.descriptor, layer.name, kernels)
    loop(workload, kernels.table.windows.depthwise, lanes)
    return workload.capsule()


def create_pool(layer, Kernels kernels):
    """Return the workload of a `Pool`: the largest element, or the mean, of each window."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_windows), 1, 1)
    cdef acc_windows *w = <acc_windows *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    place(workload, layer, lanes)
    if d.factors is not None:
        w.factors = keep(workload, d.factors)
        loop(workload, kernels.table.windows.average, lanes)
    else:
        loop(workload, kernels.table.windows.maximum, lanes)
    return workload.capsule()


def create_mean(layer, Kernels kernels):
    """Return the workload of a `MeanOfImage`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_windows), 1, 1)
    cdef acc_windows *w = <acc_windows *>workload.state.parameters
    w.images, w.channels, w.blocks = d.source[0], d.source[1], blocks(d.source[1], kernels.table.lanes)
    w.window.in_height, w.window.in_width = d.source[2:]
    items = w.images * w.blocks
    workload.phase(kernels.table.windows.mean, items, items * w.window.in_height * w.window.in_width * 1.5)
    return workload.capsule()
