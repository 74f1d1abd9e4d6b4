"""Pooling of quantized images."""

from libc.stdint cimport int32_t

from dovetail_neon.geometry.window cimport fill_window
from dovetail_neon.quantized.parameters cimport acc_quantized_pooling
from dovetail_neon.quantized.requantization cimport BLOCK, SLACK, kept, shift_of
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

import numpy as np

from dovetail_neon.geometry.layouts import pixel_bytes


cdef enum:
    LONG_WORK = 1 << 20         # elements that a row of results is made of: the stop word is read within it


def create(layer, Kernels kernels):
    """Return the workload of a `PoolQuantized`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_quantized_pooling), 1, 1)
    cdef acc_quantized_pooling *w = <acc_quantized_pooling *>workload.state.parameters
    w.images, w.channels = d.source[0], d.source[1]
    fill_window(&w.window, d)
    w.step = pixel_bytes(w.channels)
    w.polls = <double>w.window.out_width * w.step * w.window.kernel_height * w.window.kernel_width > LONG_WORK
    w.offset = shift_of(kernels, layer.output.info.dtype)
    w.pad = d.zero
    if d.counts is not None:
        w.counts = <const int32_t *>kept(workload, d.counts.astype(np.int32, copy=False))
    if layer.output.info.nbytes <= SLACK:
        return workload.capsule()
    rows = w.images * w.window.out_height
    cdef double taps = w.window.kernel_height * w.window.kernel_width
    cost = rows * w.window.out_width * parts(w.channels, BLOCK) * (2.0 + (0.4 if d.counts is None else 1.0) * taps)
    workload.phase(kernels.quantized.maximum if d.counts is None else kernels.quantized.average, rows, cost)
    return workload.capsule()
