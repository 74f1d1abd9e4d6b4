"""Convolutions and matrix products of quantized tensors, by vectors."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.interface.quantized cimport neon_quantized_convolution, neon_quantized_kernels
from dovetail_neon.interface.packing cimport neon_packing
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.quantized cimport (
    BLOCK,
    CHUNK_NANOSECONDS,
    CHUNKS_PER_WORKER,
    MOST_CHUNKS,
    SLACK,
    UNIT_BYTES,
    outside,
    requantize,
    shift_of,
    unit_of,
)
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.packed cimport Block, Packing, new_block
from dovetail_neon.workloads.workload cimport Workload, chunks_of, new_workload

import numpy as np

from dovetail_neon.layouts import pixel_bytes
from dovetail_neon.workloads import quantized_matrix

cdef enum:
    WEIGHTS_BYTES = 1 << 20     # that stay in a second cache while threads share out pixels
    LONG_SUM = 1 << 15          # products of a result: a tile of such results takes some tenths of a millisecond


def create(layer, Kernels kernels):
    """Return the workload of a `ConvolveQuantized`."""
    d = layer.descriptor
    if quantized_matrix.suits(kernels, d):
        return quantized_matrix.create(layer, kernels)
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
    form = "convolve", unit, c.divisions, c.filters, c.groups, taps, c.channels
    cdef char *packed = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef neon_packing *asking
    if packed == NULL:
        block = new_block(c.divisions * c.blocks * block_weights)
        packed = <char *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for division in range(c.divisions):
                for group in range(c.groups):
                    first, end = c.blocks * group // c.groups, c.blocks * (group + 1) // c.groups
                    table.pack[unit](
                        data + division * c.filters * filter_step, filter_step, tap_step, channel_step, first * BLOCK, c.filters,
                        end - first, taps, c.channels, packed + (division * c.blocks + first) * block_weights, asking)
        packing.finish()
        packed = <char *>workload.share(kernels.constants, block, weights, form, layer.name)
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
    c.polls = taps * c.channels > LONG_SUM
    wanted = chunks_of(nanoseconds, CHUNK_NANOSECONDS, MOST_CHUNKS)
    c.chunks = max(1, min(parts(wanted, items), pixels // (2 * table.pixels[min(most, c.blocks)])))
    cdef double moved = c.images * (c.in_height * c.in_width * c.in_step + pixels * c.out_step)
    c.chunks_first = c.divisions * c.blocks * block_weights < min(3 * moved, <double>WEIGHTS_BYTES)
    if c.chunks_first and c.chunks > 1:
        c.chunks = parts(c.chunks, 2) * 2 if c.chunks < 6 else parts(c.chunks, 4) * 4
    workload.phase(table.convolve[unit], items * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
