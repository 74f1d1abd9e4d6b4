"""Convolutions and matrix products of quantized tensors, by vectors."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.geometry.window cimport acc_window_reaches_out, fill_window
from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_kernels
from dovetail_neon.quantized.requantization cimport BLOCK, CHUNKS_PER_WORKER, CHUNK_NANOSECONDS, MAX_CHUNKS, SLACK, UNIT_BYTES
from dovetail_neon.quantized.requantization cimport outside, requantize, shift_of, unit_of
from dovetail_neon.workload.making cimport Block, Kernels, Packing, Workload, acc_packing, chunks_of, new_block, new_workload
from dovetail_neon.workload.making cimport parts

import numpy as np

from dovetail_neon.geometry.layouts import pixel_bytes
from dovetail_neon.quantized import matrix_unit

cdef enum:
    WEIGHTS_BYTES = 1 << 20     # that stay in the L2 cache while threads share out pixels
    LONG_SUM = 1 << 15          # products of a result: a tile of such results takes some tenths of a millisecond


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
    c.images = d.source[0]
    fill_window(&c.window, d)
    c.groups = d.groups
    c.channels, c.filters = d.source[1] // d.groups, d.target[1] // d.groups
    c.in_step, c.out_step = pixel_bytes(d.source[1]), pixel_bytes(d.target[1])
    cdef int element = 1 if unit else 2
    c.widened = not unit
    c.tile_step = c.in_step * element
    c.units = parts(c.channels * element, UNIT_BYTES)
    c.reaches_out = acc_window_reaches_out(&c.window)
    requantize(workload, &c.result, d, dtype, c.groups, kernels)
    c.outside = outside(workload, c.in_step, element, d.zeros[0] + shift_of(kernels, dtype))
    c.blocks = parts(c.filters, BLOCK)
    # What lies behind the last filter may be written where nothing but padding does.
    cdef int64_t last = c.filters - (c.blocks - 1) * BLOCK
    c.last_lanes = <int32_t>(last if c.groups > 1 else min(BLOCK, c.out_step - (c.blocks - 1) * BLOCK))
    # Few pixels read all weights anyhow: then more filters at once keep more sums going.
    cdef int64_t pixels = c.window.out_height * c.window.out_width, taps = c.window.kernel_height * c.window.kernel_width
    cdef int64_t most = min(<int64_t>table.most_blocks, 4 if pixels <= table.pixels[4] else 2)
    c.panels = max(parts(c.blocks, most), 1)
    cdef int64_t block_weights = taps * c.units * BLOCK * UNIT_BYTES, group, panel, first, end
    weights = d.weights
    if weights.dtype != np.int16 or weights.shape != (c.filters * c.groups, taps, c.channels):
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {layer.name!r}")
    cdef int64_t filter_step = weights.strides[0] // 2, tap_step = weights.strides[1] // 2, channel_step = weights.strides[2] // 2
    cdef const int16_t *data = <const int16_t *><size_t>weights.__array_interface__["data"][0]
    form = "convolve", unit, c.groups, c.filters, c.panels, taps, c.channels
    cdef char *packed = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    if packed == NULL:
        block = new_block(c.groups * c.blocks * block_weights)
        packed = <char *>block.data
        packing = Packing()
        asking = packing.start()
        with nogil:
            for group in range(c.groups):
                for panel in range(c.panels):
                    first, end = c.blocks * panel // c.panels, c.blocks * (panel + 1) // c.panels
                    table.pack[unit](
                        data + group * c.filters * filter_step, filter_step, tap_step, channel_step, first * BLOCK, c.filters,
                        end - first, taps, c.channels, packed + (group * c.blocks + first) * block_weights, asking)
        packing.finish()
        packed = <char *>workload.share(kernels.constants, block, weights, form, layer.name)
    c.weights = packed
    if layer.output.info.nbytes <= SLACK or not c.blocks:
        return workload.capsule()
    if c.widened:
        workload.state.shared = c.images * c.window.in_height * c.window.in_width * c.tile_step + SLACK
        workload.phase(table.widen, c.images * c.window.in_height * c.window.in_width, c.images * c.window.in_height * c.window.in_width * c.in_step / 10.0, 16)
    # Share the work out: enough items for the threads, each of some microseconds.
    cdef double products = <double>c.images * pixels * c.groups * c.blocks * taps * c.units
    cdef double nanoseconds = max(products / (5.0 if table.most_blocks > 1 else 2.0), c.groups * c.blocks * block_weights / 28.0)
    cdef int64_t items = c.images * c.groups * c.panels
    c.polls = taps * c.channels > LONG_SUM
    wanted = chunks_of(nanoseconds, CHUNK_NANOSECONDS, MAX_CHUNKS)
    c.chunks = max(1, min(parts(wanted, items), pixels // (2 * table.pixels[min(most, c.blocks)])))
    cdef double moved = c.images * (c.window.in_height * c.window.in_width * c.in_step + pixels * c.out_step)
    c.chunks_first = c.groups * c.blocks * block_weights < min(3 * moved, <double>WEIGHTS_BYTES)
    if c.chunks_first and c.chunks > 1:
        c.chunks = parts(c.chunks, 2) * 2 if c.chunks < 6 else parts(c.chunks, 4) * 4
    workload.phase(table.convolve[unit], items * c.chunks, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
