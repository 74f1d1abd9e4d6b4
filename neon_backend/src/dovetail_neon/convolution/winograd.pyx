"""Convolution with windows of 3 x 3 in fewer multiplications."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.convolution.parameters cimport acc_winograd
from dovetail_neon.geometry.window cimport fill_window
from dovetail_neon.workload.making cimport Block, Kernels, Packing, Workload, acc_packing, new_block, new_workload, parts

import numpy as np

from dovetail_neon.geometry.layouts import blocked_info


cdef enum:
    BAND_BYTES = 1 << 20        # transformed elements and products of a band: half of the L2 cache
    MIN_TILES = 8             # of a band
    LARGE_WEIGHTS = 512 << 10   # bytes: more do not stay in the L2 cache from band to band
    MIN_USES = 24             # of each weight, if they come from the L3 cache or memory
    MAX_BANDS = 16             # more are only made where the cache wants them
    MIN_BANDS = 8             # fewer do not share out well: then panels of filters are shared out too
    PAGE = 2048                 # bytes: rows a multiple of this apart compete for the same lines of the L1 cache


def create(layer, Kernels kernels):
    """Return the workload of a `WinogradConvolve`."""
    d = layer.descriptor
    cdef int adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(acc_winograd), 1 + adds, 1)
    cdef acc_winograd *w = <acc_winograd *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    geometry = d.geometry
    if d.tile not in (2, 4) or geometry.kernel != (3, 3) or geometry.stride != (1, 1) or geometry.dilation != (1, 1):
        raise ValueError(f"{layer.name!r}: no tiles of {d.tile} x {d.tile} for windows {geometry}")
    for info, image in ((layer.inputs[0].info, d.source), (layer.output.info, d.target)):
        if info.nbytes != blocked_info(image, lanes).nbytes:    # what lies beyond a smaller one would be overwritten
            raise ValueError(f"{layer.name!r}: {info} is not {image} in blocks")
    w.images, w.channels, w.filters = d.source[0], d.source[1], d.target[1]
    fill_window(&w.window, d)
    w.activation.function, w.activation.a, w.activation.b = d.function
    w.adds, w.tile = adds, d.tile
    w.tile_columns = parts(w.window.out_width, w.tile)
    w.image_tiles = parts(w.window.out_height, w.tile) * w.tile_columns
    w.tiles = w.images * w.image_tiles
    cdef int64_t positions = (w.tile + 2) * (w.tile + 2)
    # Filters in panels of vectors, as even as can be.
    cdef int64_t vectors = parts(w.filters, lanes), panel, i
    w.panels = max(parts(vectors, kernels.table.convolution.vectors), 1)
    if w.tiles < 2 * MIN_TILES:   # a band or two: there are panels to share out too
        w.panels = max(w.panels, min(vectors, 2))
    cdef int64_t most_vectors = parts(vectors, w.panels)
    cdef int32_t *panel_vector = <int32_t *>workload.allocate((w.panels + 1) * sizeof(int32_t))
    for panel in range(w.panels + 1):
        panel_vector[panel] = <int32_t>(vectors * panel // w.panels)
    w.panel_vector = panel_vector
    # Pack.
    weights = d.weights
    if weights.dtype != np.float32 or weights.shape != (w.filters, 9, w.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {layer.name!r}")
    cdef int64_t filter_step = weights.strides[0] // 4, tap_step = weights.strides[1] // 4, channel_step = weights.strides[2] // 4
    cdef const float *data = <const float *><size_t>weights.__array_interface__["data"][0]
    form = "winograd", w.filters, w.channels, w.tile, w.panels
    cdef float *packed = <float *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    cdef float *bias = <float *>workload.allocate(vectors * lanes * sizeof(float))
    cdef const float[::1] given
    if packed == NULL:
        block = new_block(vectors * positions * w.channels * lanes * sizeof(float))
        packed = <float *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for panel in range(w.panels):
                kernels.table.winograd.pack(
                    data, filter_step, tap_step, channel_step, <int64_t>panel_vector[panel] * lanes, w.filters,
                    panel_vector[panel + 1] - panel_vector[panel], w.channels, w.tile,
                    packed + panel_vector[panel] * positions * w.channels * lanes, asking)
        packing.finish()
        packed = <float *>workload.share(kernels.constants, block, weights, form, layer.name)
    if d.bias is not None:
        given = d.bias
        for i in range(w.filters):
            bias[i] = given[i]
    w.weights, w.bias = packed, bias
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    # Share the work out.
    cdef int64_t most, held
    cdef bint large = vectors * lanes * positions * w.channels * 4 > LARGE_WEIGHTS
    w.row_step = parts(w.channels, lanes) * lanes
    if w.row_step * 4 % PAGE == 0:
        w.row_step += lanes
    w.product_step = (positions * most_vectors + 1) * lanes
    most = min(parts(w.tiles, MAX_BANDS), BAND_BYTES // (4 * (positions * w.row_step + w.product_step)))
    most = max(most, MIN_USES if large else MIN_TILES)
    w.bands = parts(w.tiles, most)
    nanoseconds = w.tiles * positions * (vectors * w.channels / 5.0 + (w.channels + w.filters) / 8.0)
    cdef bint banded = w.bands >= MIN_BANDS or w.panels == 1 or not large
    held = parts(w.tiles, w.bands) if banded else w.tiles
    w.position_step = held * w.row_step + lanes
    if not banded:
        workload.state.shared = positions * w.position_step * 4
        transforming = w.tiles * positions * w.channels / 8.0
        workload.phase(kernels.table.winograd.transform, w.tiles, transforming)
        workload.phase(kernels.table.winograd.multiply, w.panels * w.bands, nanoseconds)
    else:
        w.products_at = positions * w.position_step * 4
        workload.phase(kernels.table.winograd.banded, w.bands, nanoseconds)
    workload.state.per_worker = w.products_at + parts(w.tiles, w.bands) * w.product_step * 4
    return workload.capsule()
