"""Layers of quantized tensors: depthwise convolution, pooling, sums, the ways in and out, and what all of them share."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE
from dovetail_neon.interface.quantized cimport (
    neon_quantize,
    neon_quantized_kernels,
    neon_quantized_reorder,
    neon_quantized_sum,
    neon_quantized_windows,
    neon_requantization,
)
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.packed cimport Block, new_block
from dovetail_neon.workloads.workload cimport LONG_PLANE, Workload, fill, new_workload

import numpy as np

from dovetail.ground.pieces import holds, reduced

from dovetail_neon.layouts import pixel_bytes


cdef enum:
    LONG_WORK = 1 << 20         # elements that a row of results is made of: the stop word is read within it


cdef int32_t shift_of(Kernels kernels, object dtype) except? -1:
    """What is added to stored elements of a type to have those of this backend."""
    return (128 if dtype.is_signed else 0) - (128 if kernels.quantized.is_signed else 0)


cdef void *kept(Workload workload, array) except NULL:
    """Copy an array into the workload."""
    cdef void *copy = workload.allocate(array.nbytes)
    fill(copy, array, array.dtype.type)
    return copy


def fits_a_byte(weights):
    """Whether weights can be multiplied as bytes."""
    return (weights >= -128) & (weights <= 127)


cdef int unit_of(Kernels kernels, object weights) except -1:
    """0 for products of 16 bits, 1 for those of 8, where the machine has them and weights fit."""
    return kernels.quantized.has_quads and weights.size > 0 and holds(fits_a_byte, weights)


cdef int requantize(Workload workload, neon_requantization *r, object d, object dtype, int64_t divisions, Kernels kernels) except -1:
    """Fill in how the sums of a layer with the descriptor `d` become results of a type; each division has whole blocks of filters."""
    shift = shift_of(kernels, dtype)
    filters = d.weights.shape[0]
    per_division = filters // divisions
    sums = np.zeros(filters, np.int64)
    if d.weights.size:
        sums = reduced(np.add, d.weights, range(1, d.weights.ndim), np.int64).reshape(filters) * -(d.zeros[0] + shift)
    if d.bias is not None:
        sums += d.bias
    whole = np.zeros((divisions, parts(per_division, BLOCK) * BLOCK), np.int32)
    whole[:, :per_division] = sums.astype(np.int32).reshape(divisions, per_division)    # modulo 2^32, as all sums are
    r.bias = <const int32_t *>kept(workload, whole)
    factors = np.zeros(whole.shape, np.float32)
    factors[:, :per_division] = d.factors.reshape(divisions, per_division)
    r.factors = <const float *>kept(workload, factors)
    r.zero = d.zeros[1] + shift
    r.low, r.high = d.bounds[0] + shift, d.bounds[1] + shift
    return 0


cdef const char *outside(Workload workload, int64_t count, int element, int32_t zero) except NULL:
    """Return pixels of zero points, of 1 or 2 bytes each."""
    return <const char *>kept(workload, np.full(count + SLACK, zero, np.int16).astype(np.int16 if element == 2 else np.uint8))


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
    w.polls = <double>w.out_width * w.step * w.kernel_height * w.kernel_width > LONG_WORK
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
    form = "depthwise", unit, w.channels, w.kernel_height, w.kernel_width, w.together
    w.weights = <char *>workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    if w.weights == NULL:
        block = new_block(blocks * w.together * w.stacks * w.kernel_width * BLOCK * UNIT_BYTES)
        table.pack_windows[unit](
            <const int16_t *><size_t>weights.__array_interface__["data"][0], weights.strides[0] // 2, tap_step * w.kernel_width,
            tap_step, w.channels, w.kernel_height, w.kernel_width, w.together, <char *>block.data)
        w.weights = <char *>workload.share(kernels.constants, block, weights, form, layer.name)
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
        w.counts = <const int32_t *>kept(workload, d.counts.astype(np.int32, copy=False))
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
    r.chunks = max(1, min(32, r.pixels // 256), r.pixels // LONG_PLANE)
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
