"""Convolution of blocked images in groups that do not fill blocks."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.convolution.direct cimport even, fill_pixels
from dovetail_neon.convolution.parameters cimport (
    ACC_LANES_OF_ONE_GROUP, ACC_LANES_OF_ONE_VECTOR, ACC_LANES_OF_THREE_VECTORS, ACC_LANES_OF_TWO_GROUPS, ACC_LANES_OF_TWO_VECTORS,
    acc_convolution, acc_grouped)
from dovetail_neon.geometry.window cimport acc_window_flatten, acc_window_reaches_out, acc_window_taps, fill_window
from dovetail_neon.workload.making cimport Kernels, Workload, chunks_of, keep, keep_integers, keep_packed, new_workload, parts
from dovetail_neon.workload.workload cimport fill

import numpy as np

from dovetail.ground.limits import budget
from dovetail.ground.pieces import put

from dovetail_neon.convolution.grouped import lane_sources
from dovetail_neon.geometry.window import POINT

cdef enum:
    CHUNK_NANOSECONDS = 2_500   # as of other convolutions
    MAX_CHUNKS = 48
    CHUNKS_PER_WORKER = 64
    ROW_PART = 28               # pixels of an only row: two tiles
    LONG_ITEM = 100_000         # nanoseconds: the stop word is read within items that take longer


cdef int give_lanes(Workload workload, acc_grouped *g, object source, int lanes) except -1:
    """Say what the lanes of each block of filters read in each step."""
    cdef int32_t *spread = <int32_t *>workload.allocate(source.groups.size * sizeof(int32_t))
    cdef int32_t *into = <int32_t *>workload.allocate(source.lanes.size * sizeof(int32_t))
    cdef const int32_t[::1] groups = source.groups, vectors = source.vectors
    cdef int64_t block
    for block in range(groups.shape[0]):
        if groups[block] == 1:
            spread[block] = ACC_LANES_OF_ONE_GROUP
        elif vectors[block] == 1:
            spread[block] = ACC_LANES_OF_ONE_VECTOR
        elif groups[block] == 2:
            spread[block] = ACC_LANES_OF_TWO_GROUPS
        else:
            spread[block] = ACC_LANES_OF_TWO_VECTORS if vectors[block] == 2 else ACC_LANES_OF_THREE_VECTORS
    fill(into, source.lanes, np.int32)
    g.most = source.offsets.shape[2]
    g.spread, g.sources, g.lanes = spread, keep_integers(workload, source.offsets), into
    return 0


cdef int give_panels(Workload workload, acc_grouped *g, int64_t blocks, int together, int lanes) except -1:
    """Cut the blocks into panels of at most so many, each of one group."""
    cdef acc_convolution *c = &g.convolution
    cdef int32_t *panel_vector = <int32_t *>workload.allocate((blocks + 1) * sizeof(int32_t))
    cdef int64_t first = 0, last, panels, panel
    while first < blocks:
        last = first + 1
        while last < blocks and g.spread[first] == g.spread[last] == ACC_LANES_OF_ONE_GROUP and (
                first * lanes // c.filters == last * lanes // c.filters):
            last += 1
        panels = parts(last - first, together)
        for panel in range(panels):     # as even as can be
            c.panels += 1
            panel_vector[c.panels] = <int32_t>(first + (last - first) * (panel + 1) // panels)
        first = last
    c.panel_vector = panel_vector
    return 0


cdef int give_filters(Workload workload, acc_grouped *g, object d, int64_t blocks, object name, Kernels kernels) except -1:
    """Pack weights and bias: for each channel of a group and each tap the vectors of a panel."""
    cdef acc_convolution *c = &g.convolution
    cdef int64_t panel, first, last
    filters, taps, channels, lanes = d.target[1], acc_window_taps(&c.window), c.channels, kernels.table.lanes
    if d.weights.dtype != np.float32 or d.weights.shape != (filters, taps, channels):
        raise ValueError(f"weights {d.weights.dtype}{d.weights.shape} of {name!r}")
    form = "group lanes", c.groups, filters, taps, channels, c.panels
    c.weights = <const float *>workload.packed_before(kernels.constants, d.weights, form)
    if c.weights == NULL:
        whole = np.zeros((blocks * lanes, taps, channels), np.float32)
        put(whole[:filters], d.weights)
        packed = whole.reshape(blocks, lanes, taps, channels).transpose(0, 3, 2, 1)
        if c.panels < blocks:
            apart, packed = packed, np.empty(packed.shape, np.float32)
            for panel in range(c.panels):
                budget().check_time()
                first, last = c.panel_vector[panel], c.panel_vector[panel + 1]
                of_panel = packed[first:last].reshape(channels, taps, last - first, lanes)
                of_panel[...] = apart[first:last].transpose(1, 2, 0, 3)
        c.weights = keep_packed(workload, kernels.constants, packed, d.weights, form, name)
    bias = np.zeros(blocks * lanes, np.float32)
    if d.bias is not None:
        put(bias[:filters], d.bias)
    c.bias = keep(workload, bias)
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveGrouped`."""
    d = layer.descriptor
    cdef bint adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(acc_grouped), 1 + adds, 1)
    cdef acc_grouped *g = <acc_grouped *>workload.state.parameters
    cdef acc_convolution *c = &g.convolution
    cdef int lanes = kernels.table.lanes
    cdef int64_t blocks = parts(d.target[1], lanes), rows
    cdef double nanoseconds
    c.images, c.groups, c.adds = d.source[0], d.groups, adds
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    fill_window(&c.window, d)
    fill_pixels(&c.source, layer.inputs[0].info, d.source, 1, lanes)
    fill_pixels(&c.target, layer.output.info, d.target, 1, lanes)
    # A clipped window may be a point although its image is larger, or smaller, than the results.
    cdef bint by_points = d.geometry == POINT and d.source[2:] == d.target[2:]
    if by_points:
        acc_window_flatten(&c.window)
    c.reaches_out = acc_window_reaches_out(&c.window)
    c.activation.function, c.activation.a, c.activation.b = d.function
    c.zeros = <const float *>workload.allocate(lanes * sizeof(float))
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    give_lanes(workload, g, lane_sources(c.groups, c.channels, c.filters, lanes, c.source.block_step), lanes)
    give_panels(workload, g, blocks, kernels.table.convolution.vectors if by_points else 1, lanes)
    give_filters(workload, g, d, blocks, layer.name, kernels)
    # Share out rows, or of one row its pixels.
    rows = c.window.out_height if c.window.out_height > 1 else parts(c.window.out_width, ROW_PART)
    nanoseconds = (<double>c.images * c.window.out_height * c.window.out_width * blocks
                   * (1.0 + 0.2 * acc_window_taps(&c.window) * c.channels))
    c.chunks = even(max(1, parts(chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS), c.images * c.panels)))
    c.chunks = min(c.chunks, rows)
    c.polls = nanoseconds / (c.images * c.panels * c.chunks) > LONG_ITEM
    workload.phase(kernels.table.grouped.run, c.images * c.panels * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
