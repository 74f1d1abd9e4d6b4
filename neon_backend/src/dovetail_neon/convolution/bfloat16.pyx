"""Convolution and matrix products with constant weights, of factors rounded to bfloat16."""

from libc.stdint cimport int64_t

from dovetail_neon.convolution.parameters cimport acc_bfloat16, acc_bfloat16_image, acc_bfloat16_kernels
from dovetail_neon.geometry.window cimport acc_window_flatten, acc_window_taps, fill_window
from dovetail_neon.workload.making cimport Block, Kernels, PackedConstants, Packing, Workload, acc_packing, chunks_of
from dovetail_neon.workload.making cimport keep_integers, new_block, new_workload, parts

import numpy as np

from dovetail.ground.pieces import put

from dovetail_neon.geometry.window import POINT
from dovetail_neon.geometry.layouts import is_bfloat16
from dovetail_neon.geometry.tap_planes import planes_of


cdef enum:
    FEW = 4                 # channels of a pixel of an image of few
    LANES = 16              # filters of a vector
    BLOCK = 32              # channels of a block
    PIXEL_BYTES = 64
    TILE_ROWS = 16
    TILE_WEIGHTS = 512      # pairs of channels times filters
    CHUNK_BYTES = 1 << 18   # pixels that all filters go over before the next are taken: they stay in the L2 cache


cdef int describe_image(acc_bfloat16_image *fields, object info, object image, int64_t groups) except -1:
    """Fill in how an image lies; all steps in bytes."""
    batch, channels, height, width = image
    cdef int64_t pixels = height * width, per_group = channels // groups
    fields.element = 2 if is_bfloat16(info) else 4
    if info.opaque is not None:
        fields.block = BLOCK if fields.element == 2 else LANES
        fields.pixel_step = PIXEL_BYTES
        fields.block_step = pixels * PIXEL_BYTES
        fields.image_step = parts(channels, fields.block) * fields.block_step
        fields.group_step = per_group // fields.block * fields.block_step
    else:
        fields.block, fields.block_step, fields.pixel_step = max(per_group, 1), 0, channels * 4
        fields.image_step, fields.group_step = pixels * channels * 4, per_group * 4
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveBfloat16`."""
    d = layer.descriptor
    if kernels.reduced == NULL or kernels.reduced.arranged == NULL:
        raise ValueError(f"{layer.name!r}: no products of bfloat16 with instruction set {kernels.name!r}")
    cdef int adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(acc_bfloat16), 1 + adds, 1)
    cdef acc_bfloat16 *c = <acc_bfloat16 *>workload.state.parameters
    cdef const acc_bfloat16_kernels *table = kernels.reduced.arranged
    geometry = d.geometry
    c.images = d.source[0]
    fill_window(&c.window, d)
    c.groups = d.groups
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    c.taps, c.blocks, c.vectors = acc_window_taps(&c.window), parts(c.channels, BLOCK), parts(c.filters, LANES)
    describe_image(&c.source, layer.inputs[0].info, d.source, d.groups)
    describe_image(&c.target, layer.output.info, d.target, d.groups)
    if adds:
        describe_image(&c.added, layer.inputs[1].info, d.target, d.groups)
    c.adds = adds
    c.activation.function, c.activation.a, c.activation.b = d.function
    c.few, c.channels_last = d.run > 1, d.channels_last
    if c.few:
        c.taps, c.blocks = c.window.kernel_height, parts(c.window.kernel_width * FEW, BLOCK)
    pack_weights(workload, c, table, d, layer.name, kernels.constants)
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    if not c.few and geometry._replace(dilation=(1, 1)) == POINT and d.source[2:] == d.target[2:]:
        # Every pixel by itself: one row of them.
        c.direct = c.source.element == 2
        if c.direct or c.window.in_width < 32:
            acc_window_flatten(&c.window)
    plan_planes(workload, c, geometry)
    c.grid = (c.window.out_height - 1) * c.plane_width + c.window.out_width
    c.rows = min(c.grid, TILE_ROWS)
    share_out(workload, c, table)
    return workload.capsule()


cdef int pack_weights(
    Workload workload, acc_bfloat16 *c, const acc_bfloat16_kernels *table, object d, object name, PackedConstants constants
) except -1:
    weights = d.weights
    cdef int64_t channels = d.run * FEW if c.few else c.channels
    if weights.dtype != np.float32 or weights.shape != (c.filters * c.groups, c.taps, channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    cdef int64_t filter_step = weights.strides[0] // 4, tap_step = weights.strides[1] // 4, channel_step = weights.strides[2] // 4
    cdef const float *data = <const float *><size_t>weights.__array_interface__["data"][0]
    cdef int64_t group_elements = c.vectors * c.taps * c.blocks * TILE_WEIGHTS, group, i
    form = "bfloat16", c.groups, c.filters, c.taps, channels, c.few
    cdef unsigned short *packed = <unsigned short *>workload.packed_before(constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    cdef float *bias = <float *>workload.allocate(c.groups * c.vectors * LANES * sizeof(float))
    cdef const float[::1] given
    if packed == NULL:
        block = new_block(c.groups * group_elements * sizeof(unsigned short))
        packed = <unsigned short *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for group in range(c.groups):
                table.pack(
                    data + group * c.filters * filter_step, filter_step, tap_step, channel_step, c.filters, c.taps, channels,
                    c.few, packed + group * group_elements, asking)
        packing.finish()
        packed = <unsigned short *>workload.share(constants, block, weights, form, name)
    if d.bias is not None:
        given = d.bias
        for group in range(c.groups):
            for i in range(c.filters):
                bias[group * c.vectors * LANES + i] = given[group * c.filters + i]
    c.weights, c.bias = packed, bias
    return 0


cdef int plan_planes(Workload workload, acc_bfloat16 *c, object geometry) except -1:
    """Fill in the planes that tiles read, and where taps begin in them.

    Of few channels a tap is a row of the window.
    """
    planes = planes_of(geometry, whole_rows=c.few)
    reach = planes.reach
    cdef int64_t column_bytes = PIXEL_BYTES
    c.planes, c.plane_height = len(planes.starts), c.window.out_height + reach[0]
    if c.few:
        c.plane_width = parts((c.window.out_width - 1) * c.window.stride_x + <int64_t>geometry.kernel[1], c.window.stride_x)
        c.columns = c.plane_width * c.window.stride_x
        column_bytes, c.pixel_step, c.block_step = c.window.stride_x * FEW * 2, c.window.stride_x * FEW * 2, PIXEL_BYTES
        # The last run of a row begins in it and ends in what follows.
        c.group_step = c.image_step = c.planes * c.plane_height * c.columns * FEW * 2 + c.blocks * PIXEL_BYTES
    else:
        c.plane_width = c.window.out_width + reach[1]
        c.block_step = c.planes * c.plane_height * c.plane_width * PIXEL_BYTES
        c.group_step = c.blocks * c.block_step
        c.image_step = c.source.image_step if c.direct else c.groups * c.group_step
        c.pixel_step = PIXEL_BYTES
    c.plane_y = keep_integers(workload, [y for y, _ in planes.starts])
    c.plane_x = keep_integers(workload, [x for _, x in planes.starts])
    c.tap_offset = keep_integers(
        workload, [((plane * c.plane_height + y) * c.plane_width + x) * column_bytes for plane, y, x in planes.taps])
    return 0


cdef int share_out(Workload workload, acc_bfloat16 *c, const acc_bfloat16_kernels *table) except -1:
    cdef int64_t pairs = parts(c.vectors, 2), runs = parts(c.grid, c.rows), items = c.images * c.groups * pairs, rows
    cdef double nanoseconds = items * runs * (c.taps * c.blocks * 10.0 + 40.0)
    if not c.direct:
        workload.state.shared = c.images * c.image_step
        rows = c.images * c.planes * c.plane_height * (1 if c.few else c.groups * c.blocks)
        workload.phase(table.arrange_few if c.few else table.arrange, rows, workload.state.shared / 10.0)
    wanted = chunks_of(nanoseconds, 8_000, 48)
    c.chunks = max(1, min(max(parts(wanted, items), parts(c.group_step, CHUNK_BYTES)), runs // 2))
    workload.phase(table.multiply, items * c.chunks, nanoseconds)
    return 0
