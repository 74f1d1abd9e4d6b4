"""Convolution and matrix products with constant weights."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.convolution.parameters cimport acc_convolution, acc_convolution_kernels, acc_pixels
from dovetail_neon.geometry.window cimport acc_window_reaches_out, acc_window_taps, fill_window
from dovetail_neon.workload.making cimport Block, Kernels, Packing, Workload, acc_packing, chunks_of, new_block, new_workload
from dovetail_neon.workload.making cimport parts

import numpy as np

cdef enum:
    WEIGHTS_BYTES = 1536 << 10  # of the L2 cache, which also holds what is read and written meanwhile
    CHUNK_NANOSECONDS = 2_500   # smaller tiles would cost more than a better balance gains
    MAX_CHUNKS = 48
    CHUNKS_PER_WORKER = 64      # all that there are
    LONG_SUM = 1 << 14          # products of a result: a tile of such results takes some tenths of a millisecond


cdef int fill_pixels(acc_pixels *pixels, object info, object image, int64_t groups, int lanes) except -1:
    """Fill in how the pixels of an image lie."""
    cdef int64_t channels = image[1], count = image[2] * image[3], per_group = channels // groups
    if info.opaque is not None:
        pixels.block_step = count * lanes
        pixels.image_step, pixels.group_step = parts(channels, lanes) * pixels.block_step, per_group // lanes * pixels.block_step
        pixels.pixel_step = pixels.block = lanes
    else:
        pixels.image_step, pixels.group_step, pixels.block_step = count * channels, per_group, 0
        pixels.pixel_step, pixels.block = channels, max(per_group, 1)
    return 0


cdef int describe(
    Workload workload, acc_convolution *c, object d, object name, object source, object target, bint adds, Kernels kernels
) except -1:
    """Fill in what the descriptor `d` of a `Convolve` says, and pack its weights.

    The tensors have the infos `source` and `target`.
    """
    cdef const acc_convolution_kernels *table = kernels.convolution_of(d.precision)
    cdef int lanes = kernels.table.lanes
    c.images = d.source[0]
    fill_window(&c.window, d)
    c.groups = d.groups
    c.channels, c.filters = d.source[1] // d.groups * d.run, d.target[1] // d.groups
    fill_pixels(&c.source, source, d.source, d.groups, lanes)
    c.rows = d.run > 1 and c.groups == 1
    if d.run > 1:   # a framed image: its padding lies around it
        c.source.block = d.run
        c.source.pixel_step = 1
        c.source.block_step = c.window.in_height * c.window.in_width
        if d.channels_last:     # a run of all channels
            c.source.block, c.source.pixel_step = c.channels, d.source[1]
    fill_pixels(&c.target, target, d.target, d.groups, lanes)
    c.adds = adds
    c.reaches_out = acc_window_reaches_out(&c.window)
    c.activation.function, c.activation.a, c.activation.b = d.function
    # Filters in panels of vectors, as even as can be.
    cdef int64_t vectors = parts(c.filters, lanes), joined = parts(vectors, table.together)
    c.panels = max(parts(vectors, min(d.vectors * table.together or table.vectors, table.vectors)), 1)
    cdef int32_t *panel_vector = <int32_t *>workload.allocate((c.panels + 1) * sizeof(int32_t))
    cdef int64_t *panel_weights = <int64_t *>workload.allocate((c.panels + 1) * sizeof(int64_t))
    cdef int64_t taps = acc_window_taps(&c.window), panel, group
    for panel in range(c.panels):   # zeroed memory: the first begins at 0
        panel_vector[panel + 1] = <int32_t>min(joined * (panel + 1) // c.panels * table.together, vectors)
        panel_weights[panel + 1] = panel_weights[panel] + table.packed(
            panel_vector[panel + 1] - panel_vector[panel], taps, c.channels, c.source.block)
    c.panel_vector, c.panel_weights = panel_vector, panel_weights
    c.group_weights = panel_weights[c.panels]
    # Pack.
    weights = d.weights
    if weights.dtype != np.float32 or weights.shape != (c.filters * c.groups, taps, c.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    cdef int64_t filter_step = weights.strides[0] // 4, tap_step = weights.strides[1] // 4, channel_step = weights.strides[2] // 4
    cdef const float *data = <const float *><size_t>weights.__array_interface__["data"][0]
    form = "convolve", c.groups, c.filters, c.panels, taps, c.channels, c.source.block
    cdef float *packed = <float *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    cdef float *bias = <float *>workload.allocate(c.groups * vectors * lanes * sizeof(float))
    cdef const float[::1] given
    cdef int64_t i
    if packed == NULL:
        block = new_block(c.groups * c.group_weights * sizeof(float))
        packed = <float *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for group in range(c.groups):
                for panel in range(c.panels):
                    table.pack(
                        data + group * c.filters * filter_step, filter_step, tap_step, channel_step,
                        <int64_t>panel_vector[panel] * lanes, c.filters, panel_vector[panel + 1] - panel_vector[panel], taps,
                        c.channels, c.source.block, packed + group * c.group_weights + panel_weights[panel], asking)
        packing.finish()
        packed = <float *>workload.share(kernels.constants, block, weights, form, name)
    if d.bias is not None:
        given = d.bias
        for group in range(c.groups):
            for i in range(c.filters):
                bias[group * vectors * lanes + i] = given[group * c.filters + i]
    c.weights, c.bias = packed, bias
    c.zeros = <const float *>workload.allocate(c.source.block * sizeof(float))
    c.polls = taps * c.channels > LONG_SUM
    return 0


cdef double cost(const acc_convolution *c) noexcept:
    """Estimate the nanoseconds of one thread: products, or weights arriving from the L3 cache."""
    cdef double products = <double>c.groups * c.panel_vector[c.panels] * c.window.kernel_height * c.window.kernel_width * c.channels
    return max(c.images * c.window.out_height * c.window.out_width * products / 5.0, c.groups * c.group_weights / 7.0)


cdef int64_t even(int64_t chunks) noexcept:
    """Round up, so that threads have the same halves, or quarters, of the image in each layer."""
    return chunks if chunks < 2 else parts(chunks, 2) * 2 if chunks < 6 else parts(chunks, 4) * 4


cdef bint by_pixels(const acc_convolution *c) noexcept:
    """Whether threads share out pixels rather than filters.

    Those who share pixels all read all weights, which the L3 cache delivers at some 30 GB/s; those
    who share filters all read all of the image, half of which another core has just written: that
    is a third as fast. And a weight that is read for each chunk has to stay in the L2 cache.
    """
    cdef double weights = c.groups * c.group_weights
    cdef double read = c.groups * c.channels * c.window.in_height * c.window.in_width
    cdef double written = c.groups * c.filters * c.window.out_height * c.window.out_width
    return weights < 3 * c.images * (read + written) and weights * sizeof(float) <= WEIGHTS_BYTES


def create(layer, Kernels kernels):
    """Return the workload of a `Convolve`."""
    cdef bint adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(acc_convolution), 1 + adds, 1)
    cdef acc_convolution *c = <acc_convolution *>workload.state.parameters
    cdef const acc_convolution_kernels *table = kernels.convolution_of(layer.descriptor.precision)
    describe(workload, c, layer.descriptor, layer.name, layer.inputs[0].info, layer.output.info, adds, kernels)
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    # Share the work out: enough items for the threads, each of some microseconds.
    cdef int64_t pixels = c.window.out_height * c.window.out_width, items = c.images * c.groups * c.panels
    nanoseconds = cost(c)
    wanted = chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS)
    c.chunks = max(1, min(parts(wanted, items), pixels // (2 * table.pixels[c.panel_vector[1]])))
    c.chunks_first = by_pixels(c)
    if c.chunks_first:
        c.chunks = even(c.chunks)
    workload.phase(table.run, items * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
