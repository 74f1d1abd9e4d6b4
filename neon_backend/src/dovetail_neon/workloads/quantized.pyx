"""Layers of quantized tensors: convolution, matrix products, pooling, sums, and the ways in and out."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memcpy

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE
from dovetail_neon.interface.quantized cimport (
    neon_quantize,
    neon_quantized_convolution,
    neon_quantized_kernels,
    neon_quantized_matrix,
    neon_quantized_matrix_kernels,
    neon_quantized_reorder,
    neon_quantized_sum,
    neon_quantized_windows,
    neon_requantization,
)
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.workload cimport Workload, keep_integers, new_workload

import numpy as np

from dovetail_neon.layouts import pixel_bytes
from dovetail_neon.tap_planes import planes_of

cdef enum:
    BLOCK = 16                  # channels that are treated together
    FEW = 4                     # channels of pixels of 4 bytes
    UNIT_BYTES = 4              # of the factors that a lane multiplies at once
    SLACK = 64                  # bytes that may be read behind a pixel
    TILE_ROWS = 16              # pixels of a tile of a matrix unit
    TILE_BYTES = 1024
    PIECE = 64                  # channels that it multiplies at once
    CHUNK_NANOSECONDS = 2_500
    MOST_CHUNKS = 48
    CHUNKS_PER_WORKER = 64
    CHUNK_BYTES = 1 << 18       # pixels that all filters go over before the next are taken: they stay in a second cache
    WEIGHTS_BYTES = 1 << 20     # that stay in a second cache while threads share out pixels

cdef double LEAST_FILLED = 0.2  # of the tiles of a matrix unit


cdef int32_t shift_of(Kernels kernels, object dtype) except? -1:
    """What is added to stored elements of a type to have those of this backend."""
    return (128 if dtype.is_signed else 0) - (128 if kernels.quantized.is_signed else 0)


cdef void *kept(Workload workload, array) except NULL:
    """Copy an array into the workload."""
    cdef const unsigned char[::1] source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    cdef void *copy = workload.allocate(source.shape[0])
    if source.shape[0]:
        memcpy(copy, &source[0], source.shape[0])
    return copy


cdef int unit_of(Kernels kernels, object weights) except -1:
    """0 for products of 16 bits, 1 for those of 8, where the machine has them and weights fit."""
    return kernels.quantized.has_quads and weights.size > 0 and -128 <= weights.min() and weights.max() <= 127


cdef int requantize(Workload workload, neon_requantization *r, object d, object dtype, int64_t divisions, Kernels kernels) except -1:
    """Fill in how the sums of a layer with the descriptor `d` become results of a type; each division has whole blocks of filters."""
    shift = shift_of(kernels, dtype)
    filters = d.weights.shape[0]
    per_division = filters // divisions
    sums = d.weights.sum(axis=tuple(range(1, d.weights.ndim)), dtype=np.int64) * -(d.zeros[0] + shift)
    if d.bias is not None:
        sums += d.bias
    whole = np.zeros((divisions, parts(per_division, BLOCK) * BLOCK), np.int32)
    whole[:, :per_division] = sums.astype(np.int32).reshape(divisions, per_division)    # modulo 2^32, as all sums are
    r.bias = <const int32_t *>kept(workload, whole)
    factors = np.zeros(whole.shape, np.float32)
    factors[:, :per_division] = d.factors.reshape(divisions, per_division)
    r.factors = <const float *>kept(workload, factors)
    return bound(r, d, shift)


cdef int bound(neon_requantization *r, object d, int32_t shift) except -1:
    r.zero = d.zeros[1] + shift
    r.low, r.high = d.bounds[0] + shift, d.bounds[1] + shift
    return 0


cdef const char *outside(Workload workload, int64_t count, int element, int32_t zero) except NULL:
    """Return pixels of zero points, of 1 or 2 bytes each."""
    return <const char *>kept(workload, np.full(count + SLACK, zero, np.int16).astype(np.int16 if element == 2 else np.uint8))


def create_convolution(layer, Kernels kernels):
    """Return the workload of a `ConvolveQuantized`."""
    d = layer.descriptor
    if suits_matrix_unit(kernels, d):
        return create_by_matrix_unit(layer, kernels)
    cdef Workload workload = new_workload(sizeof(neon_quantized_convolution), 1, 1)
    cdef neon_quantized_convolution *c = <neon_quantized_convolution *>workload.state.parameters
    cdef const neon_quantized_kernels *table = kernels.quantized
    cdef int unit = unit_of(kernels, d.weights)
    geometry, dtype = d.geometry, layer.output.info.dtype
    c.images = d.source[0]
    c.in_height, c.in_width = d.source[2:]
    c.out_height, c.out_width = d.target[2:]
    c.kernel_height, c.kernel_width = geometry.kernel
    c.stride_y, c.stride_x = geometry.stride
    c.dilation_y, c.dilation_x = geometry.dilation
    c.padding_top, c.padding_left = geometry.padding
    c.divisions = d.groups
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    c.in_step, c.out_step = pixel_bytes(d.source[1]), pixel_bytes(d.target[1])
    cdef int element = 1 if unit else 2
    c.widened = not unit
    c.tile_step = c.in_step * element
    c.units = parts(c.channels * element, UNIT_BYTES)
    cdef int64_t bottom = (c.out_height - 1) * c.stride_y - c.padding_top + (c.kernel_height - 1) * c.dilation_y
    cdef int64_t right = (c.out_width - 1) * c.stride_x - c.padding_left + (c.kernel_width - 1) * c.dilation_x
    c.reaches_out = c.padding_top > 0 or c.padding_left > 0 or bottom >= c.in_height or right >= c.in_width
    requantize(workload, &c.result, d, dtype, c.divisions, kernels)
    c.outside = outside(workload, c.in_step, element, d.zeros[0] + shift_of(kernels, dtype))
    c.blocks = parts(c.filters, BLOCK)
    # What lies behind the last filter may be written where nothing but padding does.
    cdef int64_t last = c.filters - (c.blocks - 1) * BLOCK
    c.last_lanes = <int32_t>(last if c.divisions > 1 else min(BLOCK, c.out_step - (c.blocks - 1) * BLOCK))
    # Few pixels read all weights anyhow: then more filters at once keep more sums going.
    cdef int64_t pixels = c.out_height * c.out_width, taps = c.kernel_height * c.kernel_width
    cdef int64_t most = min(<int64_t>table.most_blocks, 4 if pixels <= table.pixels[4] else 2)
    c.groups = max(parts(c.blocks, most), 1)
    cdef int64_t block_weights = taps * c.units * BLOCK * UNIT_BYTES, division, group, first, end
    weights = d.weights
    if weights.dtype != np.int16 or weights.shape != (c.filters * c.divisions, taps, c.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {layer.name!r}")
    cdef int64_t filter_step = weights.strides[0] // 2, tap_step = weights.strides[1] // 2, channel_step = weights.strides[2] // 2
    cdef const int16_t *data = <const int16_t *><size_t>weights.__array_interface__["data"][0]
    cdef char *packed = <char *>workload.allocate(c.divisions * c.blocks * block_weights)
    with nogil:
        for division in range(c.divisions):
            for group in range(c.groups):
                first, end = c.blocks * group // c.groups, c.blocks * (group + 1) // c.groups
                table.pack[unit](
                    data + division * c.filters * filter_step, filter_step, tap_step, channel_step, first * BLOCK, c.filters,
                    end - first, taps, c.channels, packed + (division * c.blocks + first) * block_weights)
    c.weights = packed
    if layer.output.info.nbytes <= SLACK or not c.blocks:
        return workload.capsule()
    if c.widened:
        workload.state.shared = c.images * c.in_height * c.in_width * c.tile_step + SLACK
        workload.phase(table.widen, c.images * c.in_height * c.in_width, c.images * c.in_height * c.in_width * c.in_step / 10.0, 16)
    # Share the work out: enough items for the threads, each of some microseconds.
    cdef double products = <double>c.images * pixels * c.divisions * c.blocks * taps * c.units
    cdef double nanoseconds = max(products / (5.0 if table.most_blocks > 1 else 2.0), c.divisions * c.blocks * block_weights / 28.0)
    cdef int64_t items = c.images * c.divisions * c.groups
    wanted = max(1, min(MOST_CHUNKS, int(nanoseconds // CHUNK_NANOSECONDS)))
    c.chunks = max(1, min(parts(wanted, items), pixels // (2 * table.pixels[min(most, c.blocks)])))
    cdef double moved = c.images * (c.in_height * c.in_width * c.in_step + pixels * c.out_step)
    c.chunks_first = c.divisions * c.blocks * block_weights < min(3 * moved, <double>WEIGHTS_BYTES)
    if c.chunks_first and c.chunks > 1:
        c.chunks = parts(c.chunks, 2) * 2 if c.chunks < 6 else parts(c.chunks, 4) * 4
    workload.phase(table.convolve[unit], items * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()


cdef bint suits_matrix_unit(Kernels kernels, object d) except -1:
    """Whether tiles of 16 pixels, 64 channels and 16 filters are full enough to be faster than vectors.

    A quarter full (56 x 56 pixels) they took 1.06 of the time where windows are one pixel, 0.63 to 0.81 where they are 3 x 3.
    """
    if kernels.matrix == NULL or not unit_of(kernels, d.weights):
        return False
    channels, filters = d.source[1] // d.groups, d.target[1] // d.groups
    pixels = d.target[2] * d.target[3]
    if has_few_channels(d):
        return pixels >= TILE_ROWS // 2 and filters >= BLOCK // 2
    filled = channels * filters / <double>(parts(channels, PIECE) * PIECE * parts(filters, BLOCK) * BLOCK)
    return pixels >= TILE_ROWS // 2 and filled >= LEAST_FILLED


cdef bint has_few_channels(object d) except -1:
    """Whether a row of the window is one run of bytes: an element of a row is then no vector's worth of work."""
    return d.source[1] <= FEW and d.groups == 1 and d.geometry.dilation[1] == 1


cdef object rows_of_few(object d):
    """Weights [filters, taps, channels] of a window over pixels of 4 bytes as [filters, rows, columns * 4]."""
    rows, columns = d.geometry.kernel
    filters, _, channels = d.weights.shape
    padded = np.zeros((filters, rows, columns, FEW), np.int16)
    padded[..., :channels] = d.weights.reshape(filters, rows, columns, channels)
    return padded.reshape(filters, rows, columns * FEW)


def create_by_matrix_unit(layer, Kernels kernels):
    """Return the workload of a `ConvolveQuantized` that a matrix unit computes."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_quantized_matrix), 1, 1)
    cdef neon_quantized_matrix *c = <neon_quantized_matrix *>workload.state.parameters
    cdef const neon_quantized_matrix_kernels *table = kernels.matrix
    cdef bint few = has_few_channels(d)
    geometry, dtype, weights = d.geometry, layer.output.info.dtype, rows_of_few(d) if few else d.weights
    c.images, _, c.in_height, c.in_width = d.source
    c.out_height, c.out_width = d.target[2:]
    c.stride_y = geometry.stride[0]
    c.padding_top, c.padding_left = geometry.padding
    c.divisions = d.groups
    c.channels, c.filters = weights.shape[2], d.target[1] // d.groups
    c.step, c.out_step = pixel_bytes(d.source[1]), pixel_bytes(d.target[1])
    c.taps, c.blocks, c.pieces = weights.shape[1], parts(c.filters, BLOCK), parts(c.channels, PIECE)
    requantize(workload, &c.result, d, dtype, c.divisions, kernels)
    c.outside = (d.zeros[0] + shift_of(kernels, dtype)) & 0xFF
    cdef int64_t last = c.filters - (c.blocks - 1) * BLOCK
    c.last_lanes = <int32_t>(last if c.divisions > 1 else min(BLOCK, c.out_step - (c.blocks - 1) * BLOCK))
    pack_tiles(workload, c, table, weights, layer.name)
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    c.direct = not few and c.taps == 1 and geometry.stride == (1, 1) and d.source[2:] == d.target[2:]
    if c.direct:    # every pixel by itself: one row of them
        c.in_width = c.out_width = c.in_height * c.in_width
        c.in_height = c.out_height = 1
    plan_planes(workload, c, geometry, few)
    c.grid = (c.out_height - 1) * c.plane_width + c.out_width
    c.rows = min(c.grid, TILE_ROWS)
    share_out(workload, c, table)
    return workload.capsule()


cdef int pack_tiles(
    Workload workload, neon_quantized_matrix *c, const neon_quantized_matrix_kernels *table, object weights, object name
) except -1:
    if weights.dtype != np.int16 or weights.shape != (c.filters * c.divisions, c.taps, c.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    cdef int64_t filter_step = weights.strides[0] // 2, tap_step = weights.strides[1] // 2, channel_step = weights.strides[2] // 2
    cdef const int16_t *data = <const int16_t *><size_t>weights.__array_interface__["data"][0]
    cdef int64_t per_division = c.blocks * c.taps * c.pieces * TILE_BYTES, division
    cdef char *packed = <char *>workload.allocate(c.divisions * per_division)
    with nogil:
        for division in range(c.divisions):
            table.pack(
                data + division * c.filters * filter_step, filter_step, tap_step, channel_step, c.filters, c.taps, c.channels,
                packed + division * per_division)
    c.weights = packed
    return 0


cdef int share_out(Workload workload, neon_quantized_matrix *c, const neon_quantized_matrix_kernels *table) except -1:
    """Add the loops that arrange an image and multiply it."""
    cdef int64_t pairs = parts(c.blocks, 2), runs = parts(c.grid, c.rows)
    cdef double tiles = <double>c.images * c.divisions * c.blocks * runs
    cdef double nanoseconds = max(
        tiles * (20.0 + 7.0 * c.taps * c.pieces), c.divisions * c.blocks * c.taps * c.pieces * TILE_BYTES / 28.0)
    if not c.direct:
        workload.state.shared = c.images * c.image_step + SLACK
        rows = c.images * c.planes * c.plane_height
        workload.phase(table.arrange, rows, rows * c.columns * c.step / 20.0)
    # As many chunks as keep what is read of them, and the weights of a pair, in a second cache.
    wanted = max(1, min(MOST_CHUNKS, int(nanoseconds // CHUNK_NANOSECONDS)))
    c.chunks = max(
        1, min(parts(wanted, c.images * c.divisions * pairs), parts(runs, 2)), min(c.grid * c.tile_step // CHUNK_BYTES, runs))
    workload.phase(table.multiply, c.images * c.divisions * c.chunks * pairs, nanoseconds, 1, CHUNKS_PER_WORKER)
    return 0


cdef int plan_planes(Workload workload, neon_quantized_matrix *c, object geometry, bint whole_rows) except -1:
    """Fill in the planes that tiles read, and where in them taps begin; `whole_rows`: a tap is a row of the window."""
    planes = planes_of(geometry, whole_rows=whole_rows)
    reach = planes.reach
    c.planes, c.plane_height = len(planes.starts), c.out_height + reach[0]
    if whole_rows:
        c.plane_width = c.out_width + parts(geometry.kernel[1], geometry.stride[1])
        c.columns, c.column_stride = c.plane_width * geometry.stride[1], 1
        c.tile_step = c.step * geometry.stride[1]
    else:
        c.plane_width = c.columns = c.out_width + reach[1]
        c.column_stride, c.tile_step = geometry.stride[1], c.step
    c.image_step = c.planes * c.plane_height * c.columns * c.step
    c.plane_y = keep_integers(workload, [y for y, _ in planes.starts])
    c.plane_x = keep_integers(workload, [x for _, x in planes.starts])
    c.tap_offset = keep_integers(
        workload, [((plane * c.plane_height + y) * c.plane_width + x) * c.tile_step for plane, y, x in planes.taps])
    return 0


cdef neon_quantized_windows *describe(Workload workload, object d) except NULL:
    """Fill in the sizes of a layer of windows with the descriptor `d`."""
    cdef neon_quantized_windows *w = <neon_quantized_windows *>workload.state.parameters
    geometry = d.geometry
    w.images, w.channels, w.in_height, w.in_width = d.source
    w.out_height, w.out_width = d.target[2:]
    w.kernel_height, w.kernel_width = geometry.kernel
    w.stride_y, w.stride_x = geometry.stride
    w.dilation_y, w.dilation_x = geometry.dilation
    w.padding_top, w.padding_left = geometry.padding
    w.step = pixel_bytes(w.channels)
    return w


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `DepthwiseQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_quantized_windows), 1, 1)
    cdef neon_quantized_windows *w = describe(workload, d)
    cdef const neon_quantized_kernels *table = kernels.quantized
    cdef int unit = unit_of(kernels, d.weights)
    dtype = layer.output.info.dtype
    requantize(workload, &w.result, d, dtype, 1, kernels)
    w.outside = outside(workload, w.step, 1, d.zeros[0] + shift_of(kernels, dtype))
    cdef int depth = 4 if unit else 2
    w.stacks = parts(w.kernel_height, depth)
    w.together = 2 if w.kernel_height % depth and w.stride_y == 1 == w.dilation_y else 1
    w.columns = (w.out_width - 1) * w.stride_x + (w.kernel_width - 1) * w.dilation_x + 1
    cdef int64_t blocks = parts(w.channels, BLOCK)
    weights = d.weights
    if weights.dtype != np.int16 or weights.shape != (w.channels, w.kernel_height * w.kernel_width):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {layer.name!r}")
    cdef int64_t tap_step = weights.strides[1] // 2
    cdef char *packed = <char *>workload.allocate(blocks * w.together * w.stacks * w.kernel_width * BLOCK * UNIT_BYTES)
    table.pack_windows[unit](
        <const int16_t *><size_t>weights.__array_interface__["data"][0], weights.strides[0] // 2, tap_step * w.kernel_width,
        tap_step, w.channels, w.kernel_height, w.kernel_width, w.together, packed)
    w.weights = packed
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    workload.state.per_worker = w.columns * w.stacks * BLOCK * UNIT_BYTES
    rows = w.images * parts(w.out_height, w.together)
    cost = w.columns * w.stacks + w.together * w.out_width * (1.0 + 0.3 * w.stacks * w.kernel_width)
    workload.phase(table.depthwise[unit], rows, rows * blocks * cost)
    return workload.capsule()


def create_pool(layer, Kernels kernels):
    """Return the workload of a `PoolQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_quantized_windows), 1, 1)
    cdef neon_quantized_windows *w = describe(workload, d)
    w.offset = shift_of(kernels, layer.output.info.dtype)
    w.pad = d.zero
    if d.counts is not None:
        w.counts = <const int32_t *>kept(workload, d.counts.astype(np.int32))
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    rows = w.images * w.out_height
    cost = rows * w.out_width * parts(w.channels, BLOCK) * (2.0 + w.kernel_height * w.kernel_width)
    workload.phase(kernels.quantized.maximum if d.counts is None else kernels.quantized.average, rows, cost)
    return workload.capsule()


def create_sum(layer, Kernels kernels):
    """Return the workload of an `AddQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_quantized_sum), 2, 1)
    cdef neon_quantized_sum *s = <neon_quantized_sum *>workload.state.parameters
    cdef int32_t shift = shift_of(kernels, layer.output.info.dtype)
    s.count = layer.output.info.nbytes
    s.a, s.b = d.factors
    s.zero_a, s.zero_b, s.zero = d.zeros[0] + shift, d.zeros[1] + shift, d.zeros[2] + shift
    s.low, s.high = d.bounds[0] + shift, d.bounds[1] + shift
    workload.phase(kernels.quantized.sum, s.count // BLOCK, s.count * 0.15, 4)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_reorder(layer, Kernels kernels):
    """Return the workload of a `ReorderQuantized`."""
    d, info = layer.descriptor, layer.output.info
    cdef Workload workload = new_workload(sizeof(neon_quantized_reorder), 1, 1)
    cdef neon_quantized_reorder *r = <neon_quantized_reorder *>workload.state.parameters
    r.images, r.channels, height, width = d.image
    r.pixels = height * width
    r.step = pixel_bytes(r.channels)
    r.channels_last = d.channels_last
    r.flip = info.dtype.is_signed != bool(kernels.quantized.is_signed)
    r.chunks = max(1, min(32, r.pixels // 256))
    nanoseconds = r.images * r.pixels * r.channels * 0.1
    body = kernels.quantized.from_image if info.opaque is None else kernels.quantized.to_image
    workload.phase(body, r.images * r.chunks, nanoseconds)
    return workload.capsule()


def create_quantize(layer, Kernels kernels):
    """Return the workload of a `Quantize` or `Dequantize` with one scale."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_quantize), 1, 1)
    cdef neon_quantize *q = <neon_quantize *>workload.state.parameters
    into = layer.output.info.dtype.is_integer
    q.scale, q.zero = d.quantization.scale[0], d.quantization.zero_point[0]
    q.is_signed = layer.output.info.dtype.is_signed if into else layer.inputs[0].info.dtype.is_signed
    count = layer.output.info.elements
    workload.phase(kernels.quantized.quantize if into else kernels.quantized.dequantize, count, count * 0.3, 64)
    return workload.capsule()
