"""Convolutions and matrix products of quantized tensors, by vectors."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.geometry.window cimport acc_window, acc_window_flatten, acc_window_reaches_out, fill_window
from dovetail_neon.quantized.frame cimport cut, frame_pixels
from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_kernels
from dovetail_neon.quantized.requantization cimport BLOCK, CHUNKS_PER_WORKER, CHUNK_NANOSECONDS, MAX_CHUNKS, SLACK, UNIT_BYTES
from dovetail_neon.quantized.requantization cimport address_of, check_weights, requantize, shift_of, unit_of
from dovetail_neon.workload.making cimport Block, Kernels, Packing, Workload, acc_packing, chunks_of, new_block, new_workload
from dovetail_neon.workload.making cimport parts

import numpy as np

from dovetail_neon.geometry.layouts import pixel_bytes
from dovetail_neon.quantized import matrix_unit

cdef enum:
    WEIGHTS_BYTES = 1 << 20     # that stay in the L2 cache while threads share out pixels
    FRAME_BYTES = 1 << 18       # that stay there beside them while they are read
    SUMS_IN_FLIGHT = 12         # that hide how long a product takes
    WEIGHTS_NEAR = 1 << 15      # bytes of a panel that stay in the L1 cache
    COPIES_PER_WORKER = 8       # chunks, each of which copies its frame
    LONG_SUM = 1 << 15          # products of a result: a tile of such results takes some tenths of a millisecond


cdef double COPY_NANOSECONDS = 0.1      # of a byte into a frame


cdef int read_windows(acc_quantized_convolution *c, int element, bint framed) except -1:
    """Choose how tiles read windows: as the image lies, or `framed`, and in which runs."""
    cdef acc_window *w = &c.window
    cdef int64_t beside = parts(c.channels * element, UNIT_BYTES), joined = parts(w.kernel_width * c.channels * element, UNIT_BYTES)
    cdef bint gapless = c.groups == 1 and c.in_step == c.channels
    cdef bint closing = w.dilation_x == 1 and not gapless and joined < w.kernel_width * beside
    if framed or element > 1 or acc_window_reaches_out(w) or closing:
        c.framed, gapless, c.pixel_step = element, True, c.channels * element
    else:
        c.framed, c.pixel_step = 0, c.in_step
    if w.kernel_width == 1 or (gapless and w.dilation_x == 1):
        c.runs, c.units = 1, joined
    else:
        c.runs, c.units = w.kernel_width, beside
    return 0


cdef int lay_windows(
    acc_quantized_convolution *c, object d, int64_t in_step, int64_t out_step, int element, bint framed
) except -1:
    """Fill in the sizes of a layer with the descriptor `d`, and how tiles read its image.

    Args:
        c: What is filled in.
        d: `QuantizedFilters` or `ShortFilters`.
        in_step: Elements from pixel to pixel.
        out_step: The same of results.
        element: Bytes of an element that tiles read.
        framed: Tiles cannot read the image as it lies.
    """
    cdef acc_window *w = &c.window
    c.images, c.groups = d.source[0], d.groups
    fill_window(w, d)
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    c.in_step, c.out_step = in_step, out_step
    read_windows(c, element, framed)
    cdef bint single = w.kernel_height * w.kernel_width * w.stride_y * w.stride_x == 1
    if single and w.in_height == w.out_height and w.in_width == w.out_width and not acc_window_reaches_out(w):
        acc_window_flatten(w)
        w.in_width, w.out_width, c.images = c.images * w.in_width, c.images * w.out_width, 1
    return 0


cdef int64_t block_bytes(const acc_quantized_convolution *c) noexcept:
    """Return the bytes of the packed weights of a block."""
    return c.window.kernel_height * c.runs * c.units * BLOCK * UNIT_BYTES


cdef double cycles(
    const acc_quantized_kernels *table, int64_t blocks, int64_t rows, int64_t columns, int64_t planes, bint near
) noexcept:
    """Estimate the cycles that a panel of so many blocks takes for a word of an image of results.

    Two products and two loads are begun in a cycle; the L2 cache brings a vector in about 4.
    """
    cdef int64_t most = table.pixels[blocks] // planes
    cdef int64_t together = 2 if planes == 1 and rows > 1 and 2 * columns <= most else 1
    cdef int64_t tiles = parts(columns, most)
    cdef double pixels = together * planes * columns / <double>tiles
    cdef double each = max(pixels * blocks, pixels + blocks, <double>SUMS_IN_FLIGHT) / 2
    return tiles * parts(rows, together) * (each if near else max(each, 4.0 * blocks))


cdef int64_t panels_of(
    const acc_quantized_kernels *table, int64_t blocks, int64_t rows, int64_t columns, int64_t block_weights, int64_t planes
) noexcept:
    """Return into how many panels the blocks of a group are best cut.

    Each pixel is as many of those that tiles hold as it has `planes`.
    """
    cdef int64_t most, panels, best = blocks, panel, size, count
    cdef double least = 1e300, total
    for most in (2, 1, 3, 4):
        if most > table.most_blocks:
            continue
        panels = parts(blocks, most)
        total = 0
        for panel in range(min(panels, <int64_t>2)):     # the least and the greatest that are made
            size = blocks // panels + panel
            count = blocks % panels if panel else panels - blocks % panels
            if count:
                total += count * cycles(table, size, rows, columns, planes, size * block_weights <= WEIGHTS_NEAR)
        if total < 0.97 * least:
            least, best = total, panels
    return best


cdef int lay_filters(
    Workload workload, acc_quantized_convolution *c, Kernels kernels, object weights, int unit, object name, int64_t planes=1
) except -1:
    """Cut filters into blocks and panels, and pack their weights."""
    cdef const acc_window *w = &c.window
    cdef bint upright = w.out_width == 1
    c.blocks = parts(c.filters, BLOCK)
    # What lies behind the last filter may be written where nothing but padding does.
    cdef int64_t others = (c.blocks - 1) * BLOCK
    c.last_lanes = <int32_t>(c.filters - others if c.groups > 1 else min(BLOCK, c.out_step - others))
    c.panels = panels_of(
        kernels.quantized, c.blocks, 1 if upright else w.out_height, w.out_height if upright else w.out_width, block_bytes(c), planes)
    c.weights = packed_filters(workload, c, kernels, weights, unit, name)
    return 0


cdef char *packed_filters(
    Workload workload, const acc_quantized_convolution *c, Kernels kernels, object weights, int unit, object name
) except NULL:
    """Pack weights as tiles of a unit read them, unless another workload has packed the same."""
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef const acc_window *w = &c.window
    cdef int64_t taps = w.kernel_height * w.kernel_width, block_weights = block_bytes(c), group, panel, first, end
    check_weights(weights, (c.filters * c.groups, taps, c.channels), name)
    # Taps that are one run are packed as one tap of more channels.
    cdef int64_t joined = w.kernel_width if c.runs == 1 else 1, width = weights.itemsize
    cdef int64_t filter_step, tap_step, channel_step
    cdef const char *data
    cdef const char *of_group
    cdef tuple form = ("convolve", unit, c.groups, c.filters, c.panels, taps, c.channels, joined)
    cdef char *packed = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    if packed != NULL:
        return packed
    laid = weights
    if joined > 1:
        laid = np.ascontiguousarray(weights).reshape(weights.shape[0], taps // joined, joined * c.channels)
    filter_step, tap_step, channel_step = laid.strides[0] // width, laid.strides[1] // width, laid.strides[2] // width
    data = <const char *>address_of(laid)
    block = new_block(c.groups * c.blocks * block_weights)
    packed = <char *>block.data
    packing = Packing()
    asking = packing.start()
    with nogil:
        for group in range(c.groups):
            of_group = data + group * c.filters * filter_step * width
            for panel in range(c.panels):
                first, end = c.blocks * panel // c.panels, c.blocks * (panel + 1) // c.panels
                if width == 1:
                    table.pack_stored[unit](
                        <const int8_t *>of_group, filter_step, tap_step, channel_step, first * BLOCK, c.filters, end - first,
                        taps // joined, c.channels * joined, packed + (group * c.blocks + first) * block_weights, asking)
                else:
                    table.pack[unit](
                        <const int16_t *>of_group, filter_step, tap_step, channel_step, first * BLOCK, c.filters, end - first,
                        taps // joined, c.channels * joined, packed + (group * c.blocks + first) * block_weights, asking)
    packing.finish()
    return <char *>workload.share(kernels.constants, block, weights, form, name)


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveQuantized`."""
    d = layer.descriptor
    if matrix_unit.suits(kernels, d):
        return matrix_unit.create(layer, kernels)
    cdef Workload workload = new_workload(sizeof(acc_quantized_convolution), 1, 1)
    cdef acc_quantized_convolution *c = <acc_quantized_convolution *>workload.state.parameters
    cdef const acc_quantized_kernels *table = kernels.quantized
    cdef int unit = unit_of(kernels, d.weights)
    dtype = layer.output.info.dtype
    lay_windows(c, d, pixel_bytes(d.source[1]), pixel_bytes(d.target[1]), 1 if unit else 2, False)
    requantize(workload, &c.result, d, dtype, c.groups, kernels)
    c.outside = d.zeros[0] + shift_of(kernels, dtype)
    lay_filters(workload, c, kernels, d.weights, unit, layer.name)
    if layer.output.info.nbytes <= SLACK or not c.blocks:
        return workload.capsule()
    cdef double nanoseconds = products_nanoseconds(c, table)
    share_out(c, table, nanoseconds)
    cdef int64_t frame = frame_pixels(&c.window, c.row_bands, c.column_bands) * c.pixel_step if c.framed else 0
    workload.state.per_worker = frame + SLACK if c.framed else 0
    add_phase(workload, c, table.convolve[unit], nanoseconds, frame)
    return workload.capsule()


cdef double products_nanoseconds(const acc_quantized_convolution *c, const acc_quantized_kernels *table, int64_t planes=1) noexcept:
    """Estimate what all products take: the multipliers, or weights from memory."""
    cdef const acc_window *w = &c.window
    cdef double blocks = <double>c.groups * c.blocks
    cdef double products = c.images * w.out_height * w.out_width * blocks * w.kernel_height * c.runs * c.units * planes
    return max(products / (5.0 if table.most_blocks > 1 else 2.0), blocks * block_bytes(c) / 28.0)


cdef int add_phase(
    Workload workload, const acc_quantized_convolution *c, dovetail_body body, double nanoseconds, int64_t frame
) except -1:
    """Add the phase of all items; a frame, if there are any, has so many bytes."""
    cdef int64_t chunks = c.images * c.groups * c.row_bands * c.column_bands
    cdef double copied = <double>frame * chunks * (1 if c.chunks_first else c.panels)
    workload.phase(
        body, chunks * c.panels, nanoseconds + copied * COPY_NANOSECONDS, 1,
        COPIES_PER_WORKER if frame and not c.chunks_first else CHUNKS_PER_WORKER)
    return 0


cdef int share_out(
    acc_quantized_convolution *c, const acc_quantized_kernels *table, double nanoseconds, int64_t planes=1, int64_t element=1
) except -1:
    """Cut the results of an image into rectangles: enough for the threads, of some microseconds.

    There are more where the frame of one would otherwise not stay in the cache. Elements of the
    image have so many bytes, and its frames so many `planes`.
    """
    cdef const acc_window *w = &c.window
    cdef int64_t pixels = w.out_height * w.out_width, least = 2 * table.pixels[parts(c.blocks, c.panels)] // planes
    cdef int64_t chunks = parts(chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS), c.images * c.groups * c.panels)
    cdef double moved = c.images * element * (w.in_height * w.in_width * c.in_step + pixels * c.out_step)
    cdef int64_t framed = max(c.pixel_step, c.channels * element)
    chunks = max(1, min(chunks, pixels // least))
    c.polls = w.kernel_height * w.kernel_width * c.channels > LONG_SUM
    c.chunks_first = c.groups * c.blocks * block_bytes(c) < min(3 * moved, <double>WEIGHTS_BYTES)
    if c.chunks_first and chunks > 1:
        chunks = parts(chunks, 2) * 2 if chunks < 6 else parts(chunks, 4) * 4
    elif c.framed:
        chunks = 1      # panels would each copy the frames of all
    cut(w, chunks, max(FRAME_BYTES // framed, 1) if c.framed else 0, &c.row_bands, &c.column_bands)
    return 0
