"""Convolve images in bfloat16 depthwise; weights, products and sums are float32."""

from dovetail_neon.geometry.window cimport acc_window_taps, fill_window
from dovetail_neon.windows.parameters cimport acc_windows
from dovetail_neon.workload.making cimport Kernels, Workload, keep, keep_packed, new_workload, parts

import numpy as np

from dovetail.ground.pieces import put


cdef enum:
    BLOCK = 32              # channels of a block


def create_depthwise(layer, Kernels kernels):
    """Return the workload of a `DepthwiseBfloat16`."""
    d = layer.descriptor
    if kernels.reduced == NULL or kernels.reduced.depthwise == NULL:
        raise ValueError(f"{layer.name!r}: no images of bfloat16 with instruction set {kernels.name!r}")
    cdef Workload workload = new_workload(sizeof(acc_windows), 1, 1)
    cdef acc_windows *c = <acc_windows *>workload.state.parameters
    c.images, c.channels = d.source[0], d.source[1]
    fill_window(&c.window, d)
    c.blocks = parts(c.channels, BLOCK)
    taps = acc_window_taps(&c.window)
    form = "depthwise of bfloat16", c.channels, taps
    c.weights = <const float *>workload.packed_before(kernels.constants, d.weights, form)
    if c.weights == NULL:
        whole = np.zeros((c.blocks * BLOCK, taps), np.float32)
        put(whole[:c.channels], d.weights)
        packed = whole.reshape(c.blocks, BLOCK, taps).transpose(0, 2, 1)
        c.weights = keep_packed(workload, kernels.constants, packed, d.weights, form, layer.name)
    bias = np.zeros(c.blocks * BLOCK, np.float32)
    if d.bias is not None:
        bias[:c.channels] = d.bias
    c.bias = keep(workload, bias)
    c.activation.function, c.activation.a, c.activation.b = d.function
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    c.chunks = max(1, min(c.window.out_height, parts(24, c.images * c.blocks)))
    items = c.images * c.blocks * c.chunks
    results = c.images * c.blocks * c.window.out_height * c.window.out_width
    workload.phase(kernels.reduced.depthwise, items, results * (3.0 + 0.8 * taps))
    return workload.capsule()
