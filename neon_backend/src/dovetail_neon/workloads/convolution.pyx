"""Convolution and matrix products with constant weights."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.interface.convolution cimport neon_convolution, neon_convolution_kernels
from dovetail_neon.interface.packing cimport neon_packing
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.packed cimport Block, Packing, new_block
from dovetail_neon.workloads.workload cimport Workload, chunks_of, new_workload

import numpy as np

cdef enum:
    WEIGHTS_BYTES = 1536 << 10  # of a second cache, which also holds what is read and written meanwhile
    CHUNK_NANOSECONDS = 2_500   # smaller tiles would cost more than a better balance gains
    MOST_CHUNKS = 48
    CHUNKS_PER_WORKER = 64      # all that there are
    LONG_SUM = 1 << 14          # products of a result: a tile of such results takes some tenths of a millisecond


cdef int fill_pixels(int64_t *fields, object info, object image, int64_t groups, int lanes) except -1:
    """Fill a neon_pixels: image_step, division_step, block_step, pixel_step, block."""
    batch, channels, height, width = image
    pixels = height * width
    per_group = channels // groups
    if info.opaque is not None:
        fields[0], fields[2] = parts(channels, lanes) * pixels * lanes, pixels * lanes
        fields[1] = per_group // lanes * fields[2]
        fields[3] = fields[4] = lanes
    else:
        fields[0], fields[1], fields[2], fields[3], fields[4] = pixels * channels, per_group, 0, channels, max(per_group, 1)
    return 0


cdef bint reaches_out(const neon_convolution *c) noexcept:
    cdef int64_t bottom = (c.out_height - 1) * c.stride_y - c.padding_top + (c.kernel_height - 1) * c.dilation_y
    cdef int64_t right = (c.out_width - 1) * c.stride_x - c.padding_left + (c.kernel_width - 1) * c.dilation_x
    return c.padding_top > 0 or c.padding_left > 0 or bottom >= c.in_height or right >= c.in_width


cdef int describe(
    Workload workload, neon_convolution *c, object d, object name, object source, object target, bint adds, Kernels kernels
) except -1:
    """Fill in what a `Convolve` with the descriptor `d` says, for tensors with the infos `source` and `target`; pack its weights."""
    cdef const neon_convolution_kernels *table = kernels.convolution
    cdef int lanes = kernels.table.lanes
    geometry = d.geometry
    c.images = d.source[0]
    c.in_height, c.in_width = d.source[2:]
    c.out_height, c.out_width = d.target[2:]
    c.kernel_height, c.kernel_width = geometry.kernel
    c.stride_y, c.stride_x = geometry.stride
    c.dilation_y, c.dilation_x = geometry.dilation
    c.padding_top, c.padding_left = geometry.padding
    c.divisions = d.groups
    c.channels, c.filters = d.source[1] // d.groups * d.run, d.target[1] // d.groups
    fill_pixels(<int64_t *>&c.source, source, d.source, d.groups, lanes)
    c.rows = d.run > 1 and c.divisions == 1
    if d.run > 1:   # a framed image: its padding lies around it
        c.source.block = d.run
        c.source.pixel_step = 1
        c.source.block_step = c.in_height * c.in_width
        if d.channels_last:     # a run of all channels
            c.source.block, c.source.pixel_step = c.channels, d.source[1]
    fill_pixels(<int64_t *>&c.target, target, d.target, d.groups, lanes)
    c.adds = adds
    c.reaches_out = reaches_out(c)
    c.activation.function, c.activation.a, c.activation.b = d.function
    # Filters in groups of vectors, as even as can be.
    cdef int64_t vectors = parts(c.filters, lanes), joined = parts(vectors, table.together)
    c.groups = max(parts(vectors, min(d.vectors * table.together or table.vectors, table.vectors)), 1)
    cdef int32_t *group_vector = <int32_t *>workload.allocate((c.groups + 1) * sizeof(int32_t))
    cdef int64_t *group_weights = <int64_t *>workload.allocate((c.groups + 1) * sizeof(int64_t))
    cdef int64_t taps = c.kernel_height * c.kernel_width, group, division
    for group in range(c.groups):   # zeroed memory: the first begins at 0
        group_vector[group + 1] = <int32_t>min(joined * (group + 1) // c.groups * table.together, vectors)
        group_weights[group + 1] = group_weights[group] + table.packed(
            group_vector[group + 1] - group_vector[group], taps, c.channels, c.source.block)
    c.group_vector, c.group_weights = group_vector, group_weights
    c.division_weights = group_weights[c.groups]
    # Pack.
    weights = d.weights
    if weights.dtype != np.float32 or weights.shape != (c.filters * c.divisions, taps, c.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    cdef int64_t filter_step = weights.strides[0] // 4, tap_step = weights.strides[1] // 4, channel_step = weights.strides[2] // 4
    cdef const float *data = <const float *><size_t>weights.__array_interface__["data"][0]
    form = "convolve", c.divisions, c.filters, c.groups, taps, c.channels, c.source.block
    cdef float *packed = <float *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef neon_packing *asking
    cdef float *bias = <float *>workload.allocate(c.divisions * vectors * lanes * sizeof(float))
    cdef const float[::1] given
    cdef int64_t i
    if packed == NULL:
        block = new_block(c.divisions * c.division_weights * sizeof(float))
        packed = <float *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for division in range(c.divisions):
                for group in range(c.groups):
                    table.pack(
                        data + division * c.filters * filter_step, filter_step, tap_step, channel_step,
                        <int64_t>group_vector[group] * lanes, c.filters, group_vector[group + 1] - group_vector[group], taps,
                        c.channels, c.source.block, packed + division * c.division_weights + group_weights[group], asking)
        packing.finish()
        packed = <float *>workload.share(kernels.constants, block, weights, form, name)
    if d.bias is not None:
        given = d.bias
        for division in range(c.divisions):
            for i in range(c.filters):
                bias[division * vectors * lanes + i] = given[division * c.filters + i]
    c.weights, c.bias = packed, bias
    c.zeros = <const float *>workload.allocate(c.source.block * sizeof(float))
    c.polls = taps * c.channels > LONG_SUM
    return 0


cdef double cost(const neon_convolution *c) noexcept:
    """Estimate the nanoseconds that one thread takes: for the products, or for the weights to arrive from a third cache."""
    cdef double products = <double>c.divisions * c.group_vector[c.groups] * c.kernel_height * c.kernel_width * c.channels
    return max(c.images * c.out_height * c.out_width * products / 5.0, c.divisions * c.division_weights / 7.0)


cdef int64_t even(int64_t chunks) noexcept:
    """Round up, so that threads have the same halves, or quarters, of the image in each layer."""
    return chunks if chunks < 2 else parts(chunks, 2) * 2 if chunks < 6 else parts(chunks, 4) * 4


cdef bint by_pixels(const neon_convolution *c) noexcept:
    """Whether threads share out pixels rather than filters.

    Those who share pixels all read all weights, which a third cache delivers at some 30 GB/s; those who share filters all read all
    of the image, half of which another core has just written: that is a third as fast. And a weight that is read for each chunk
    has to stay in the second cache.
    """
    cdef double weights = c.divisions * c.division_weights
    cdef double read = c.divisions * c.channels * c.in_height * c.in_width
    cdef double written = c.divisions * c.filters * c.out_height * c.out_width
    return weights < 3 * c.images * (read + written) and weights * sizeof(float) <= WEIGHTS_BYTES


def create(layer, Kernels kernels):
    """Return the workload of a `Convolve`."""
    cdef bint adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(neon_convolution), 1 + adds, 1)
    cdef neon_convolution *c = <neon_convolution *>workload.state.parameters
    cdef const neon_convolution_kernels *table = kernels.convolution
    describe(workload, c, layer.descriptor, layer.name, layer.inputs[0].info, layer.output.info, adds, kernels)
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    # Share the work out: enough items for the threads, each of some microseconds.
    cdef int64_t pixels = c.out_height * c.out_width, items = c.images * c.divisions * c.groups
    nanoseconds = cost(c)
    wanted = chunks_of(nanoseconds, CHUNK_NANOSECONDS, MOST_CHUNKS)
    c.chunks = max(1, min(parts(wanted, items), pixels // (2 * table.pixels[c.group_vector[1]])))
    c.chunks_first = by_pixels(c)
    if c.chunks_first:
        c.chunks = even(c.chunks)
    workload.phase(table.run, items * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
