"""Convolutions and matrix products of quantized tensors, by a matrix unit."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport acc_window_flatten, fill_window
from dovetail_neon.quantized.parameters cimport acc_quantized_matrix, acc_quantized_matrix_kernels
from dovetail_neon.quantized.requantization cimport BLOCK, CHUNKS_PER_WORKER, CHUNK_NANOSECONDS, MAX_CHUNKS, SLACK, requantize
from dovetail_neon.quantized.requantization cimport address_of, check_weights, shift_of, shorts, unit_of
from dovetail_neon.workload.making cimport Block, Kernels, PackedConstants, Packing, Workload, acc_packing, chunks_of
from dovetail_neon.workload.making cimport keep_integers, new_block, new_workload, parts

import numpy as np

from dovetail_neon.geometry.window import POINT
from dovetail_neon.geometry.layouts import pixel_bytes
from dovetail_neon.geometry.tap_planes import planes_of

cdef enum:
    FEW = 4                     # channels of pixels of 4 bytes
    TILE_ROWS = 16              # pixels of a tile
    TILE_BYTES = 1024
    PIECE = 64                  # channels that are multiplied at once
    MAX_COLUMNS = 64           # that a row of results reaches over, by those that it and the image have
    CHUNK_BYTES = 1 << 18       # pixels that all filters go over before the next are taken: they stay in the L2 cache

cdef double MIN_FILLED = 0.2  # of the tiles


def suits(Kernels kernels, object d):
    """Return whether a matrix unit exists and its tiles are full enough to beat vectors.

    A tile has 16 pixels, 64 channels and 16 filters. A quarter full (56 x 56 pixels) they took 1.06
    of the time where windows are one pixel, 0.63 to 0.81 where they are 3 x 3.
    """
    if kernels.matrix == NULL or not unit_of(kernels, d.weights):
        return False
    channels, filters = d.source[1] // d.groups, d.target[1] // d.groups
    pixels = d.target[2] * d.target[3]
    if (d.target[3] - 1) * d.geometry.stride[1] > MAX_COLUMNS * (d.source[3] + d.target[3]):
        return False    # nearly all padding, which would be put in place
    if has_few_channels(d):
        return pixels >= TILE_ROWS // 2 and filters >= BLOCK // 2
    filled = channels * filters / <double>(parts(channels, PIECE) * PIECE * parts(filters, BLOCK) * BLOCK)
    return pixels >= TILE_ROWS // 2 and filled >= MIN_FILLED


cdef bint has_few_channels(object d) except -1:
    """Return whether a row of the window is one run of bytes.

    An element of a row is then no vector's worth of work.
    """
    return d.source[1] <= FEW and d.groups == 1 and d.geometry.dilation[1] == 1


cdef object rows_of_few(object d):
    """Repack weights [filters, taps, channels] of 4-byte pixels as [filters, rows, columns * 4]."""
    rows, columns = d.geometry.kernel
    filters, _, channels = d.weights.shape
    padded = np.zeros((filters, rows, columns, FEW), np.int16)
    padded[..., :channels] = d.weights.reshape(filters, rows, columns, channels)
    return padded.reshape(filters, rows, columns * FEW)


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveQuantized` that a matrix unit computes."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_matrix), 1, 1)
    cdef acc_quantized_matrix *c = <acc_quantized_matrix *>workload.state.parameters
    cdef const acc_quantized_matrix_kernels *table = kernels.matrix
    cdef bint few = has_few_channels(d)
    geometry, dtype, weights = d.geometry, layer.output.info.dtype, rows_of_few(d) if few else d.weights
    c.images = d.source[0]
    fill_window(&c.window, d)
    c.groups = d.groups
    c.channels, c.filters = weights.shape[2], d.target[1] // d.groups
    c.step, c.out_step = pixel_bytes(d.source[1]), pixel_bytes(d.target[1])
    c.taps, c.blocks, c.pieces = weights.shape[1], parts(c.filters, BLOCK), parts(c.channels, PIECE)
    requantize(workload, &c.result, d, dtype, c.groups, kernels)
    c.outside = (d.zeros[0] + shift_of(kernels, dtype)) & 0xFF
    cdef int64_t last = c.filters - (c.blocks - 1) * BLOCK
    c.last_lanes = <int32_t>(last if c.groups > 1 else min(BLOCK, c.out_step - (c.blocks - 1) * BLOCK))
    pack_tiles(workload, c, table, weights, layer.name, kernels.constants)
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    c.direct = not few and geometry._replace(dilation=(1, 1)) == POINT and d.source[2:] == d.target[2:]
    if c.direct:    # every pixel by itself: one row of them
        acc_window_flatten(&c.window)
    plan_planes(workload, c, geometry, few)
    c.grid = (c.window.out_height - 1) * c.plane_width + c.window.out_width
    c.rows = min(c.grid, TILE_ROWS)
    share_out(workload, c, table)
    return workload.capsule()


cdef int pack_tiles(
    Workload workload, acc_quantized_matrix *c, const acc_quantized_matrix_kernels *table, object weights, object name,
    PackedConstants constants
) except -1:
    check_weights(weights, (c.filters * c.groups, c.taps, c.channels), name)
    cdef int64_t filter_step, tap_step, channel_step
    cdef const int16_t *data
    cdef int64_t group_elements = c.blocks * c.taps * c.pieces * TILE_BYTES, group
    form = "tiles", c.groups, c.filters, c.taps, c.channels
    cdef char *packed = <char *>workload.packed_before(constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    if packed == NULL:
        wide = shorts(weights)
        filter_step, tap_step, channel_step = wide.strides[0] // 2, wide.strides[1] // 2, wide.strides[2] // 2
        data = <const int16_t *>address_of(wide)
        block = new_block(c.groups * group_elements)
        packed = <char *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for group in range(c.groups):
                table.pack(
                    data + group * c.filters * filter_step, filter_step, tap_step, channel_step, c.filters, c.taps, c.channels,
                    packed + group * group_elements, asking)
        packing.finish()
        packed = <char *>workload.share(constants, block, weights, form, name)
    c.weights = packed
    return 0


cdef int share_out(Workload workload, acc_quantized_matrix *c, const acc_quantized_matrix_kernels *table) except -1:
    """Add the loops that arrange an image and multiply it."""
    cdef int64_t pairs = parts(c.blocks, 2), runs = parts(c.grid, c.rows)
    cdef double tiles = <double>c.images * c.groups * c.blocks * runs
    cdef double nanoseconds = max(
        tiles * (20.0 + 7.0 * c.taps * c.pieces), c.groups * c.blocks * c.taps * c.pieces * TILE_BYTES / 28.0)
    if not c.direct:
        workload.state.shared = c.images * c.image_step + SLACK
        rows = c.images * c.planes * c.plane_height
        workload.phase(table.arrange, rows, rows * c.columns * c.step / 20.0)
    # As many chunks as keep what is read of them, and the weights of a pair, in the L2 cache.
    wanted = chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS)
    c.chunks = max(
        1, min(parts(wanted, c.images * c.groups * pairs), parts(runs, 2)), min(c.grid * c.tile_step // CHUNK_BYTES, runs))
    workload.phase(table.multiply, c.images * c.groups * c.chunks * pairs, nanoseconds, 1, CHUNKS_PER_WORKER)
    return 0


cdef int plan_planes(Workload workload, acc_quantized_matrix *c, object geometry, bint whole_rows) except -1:
    """Fill in the planes that tiles read, and where taps begin in them.

    With `whole_rows` a tap is a row of the window.
    """
    planes = planes_of(geometry, whole_rows=whole_rows)
    reach = planes.reach
    c.planes, c.plane_height = len(planes.starts), c.window.out_height + reach[0]
    if whole_rows:
        c.plane_width = c.window.out_width + parts(geometry.kernel[1], geometry.stride[1])
        c.columns, c.column_stride = c.plane_width * geometry.stride[1], 1
        c.tile_step = c.step * geometry.stride[1]
    else:
        c.plane_width = c.columns = c.window.out_width + reach[1]
        c.column_stride, c.tile_step = geometry.stride[1], c.step
    c.image_step = c.planes * c.plane_height * c.columns * c.step
    c.plane_y = keep_integers(workload, [y for y, _ in planes.starts])
    c.plane_x = keep_integers(workload, [x for _, x in planes.starts])
    c.tap_offset = keep_integers(
        workload, [((plane * c.plane_height + y) * c.plane_width + x) * c.tile_step for plane, y, x in planes.taps])
    return 0
