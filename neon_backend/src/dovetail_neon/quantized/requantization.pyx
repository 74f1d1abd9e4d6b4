"""What layers of quantized tensors share: units, zero points, and from sums to results."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_requantization
from dovetail_neon.workload.making cimport Kernels, Packing, Workload, acc_packing, parts
from dovetail_neon.workload.packing cimport acc_packing_stops
from dovetail_neon.workload.workload cimport fill

import numpy as np

from dovetail.ground.pieces import assembled, reduced

cdef enum:
    SHORT_SUM = 1 << 15         # elements whose sum 32 bits hold

ctypedef fused Weight:
    int8_t
    int16_t


cdef double NEAR = 2.0**22 - 2.0**10
"""Beyond it results have fewer bits than what they are rounded with."""


cdef int32_t shift_of(Kernels kernels, object dtype) except? -1:
    """What is added to stored elements of a type to have those of this backend."""
    return (128 if dtype.is_signed else 0) - (128 if kernels.quantized.is_signed else 0)


cdef void *kept(Workload workload, object array) except NULL:
    """Copy an array into the workload."""
    cdef void *copy = workload.allocate(array.nbytes)
    fill(copy, array, array.dtype.type)
    return copy


cdef int unit_of(Kernels kernels, object weights) except -1:
    """0 for products of 16 bits, 1 for those of 8, where the machine has them and weights fit."""
    if not kernels.quantized.has_quads or not weights.size:
        return 0
    if weights.dtype == np.int8:
        return 1
    least, most = (reduced(extreme, weights, range(weights.ndim), np.int16).item() for extreme in (np.minimum, np.maximum))
    return least >= -128 and most <= 127


cdef int check_weights(object weights, tuple shape, object name) except -1:
    """Refuse weights that are not what a layer's sizes say.

    Raises:
        ValueError: They have another shape, or neither 8 nor 16 bits.
    """
    if weights.dtype not in (np.int8, np.int16) or weights.shape != shape:
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    return 0


cdef object shorts(object weights):
    """Return weights of 8 or 16 bits in 16."""
    return weights if weights.dtype == np.int16 else assembled(weights.shape, np.int16, weights.__getitem__)


cdef const void *address_of(object array) except? NULL:
    """Return where the elements of an array begin."""
    return <const void *><size_t>array.__array_interface__["data"][0]


cdef int64_t sum_of(const Weight *weights, int64_t step, int64_t count, acc_packing *asking) noexcept nogil:
    """Return the sum of elements that lie `step` apart."""
    cdef int64_t total = 0, begin = 0, end, i
    cdef int32_t few
    while begin < count:
        end, few = min(begin + SHORT_SUM, count), 0
        if acc_packing_stops(asking, end - begin):
            break
        if step == 1:
            for i in range(begin, end):
                few += weights[i]
        else:
            for i in range(begin, end):
                few += weights[i * step]
        total += few
        begin = end
    return total


cdef void add_up(
    const Weight *weights, const int64_t *steps, const int64_t *sizes, int64_t *sums, acc_packing *asking) noexcept nogil:
    """Sum up what each filter multiplies by: elements [filter, tap, channel]."""
    cdef int64_t filter, tap
    for filter in range(sizes[0]):
        for tap in range(sizes[1]):
            sums[filter] += sum_of(weights + filter * steps[0] + tap * steps[1], steps[2], sizes[2], asking)


cdef object sums_of(object weights):
    """Return the sum of the weights of each filter, in int64.

    Raises:
        LoadTimeoutError: The time of the load under way is over.
    """
    cdef int64_t[3] steps, sizes
    cdef int axis
    cdef int64_t[::1] sums = np.zeros(weights.shape[0], np.int64)
    if not weights.size:
        return np.asarray(sums)
    for axis in range(3):   # of windows over each channel there is no third
        if axis < weights.ndim:
            sizes[axis], steps[axis] = weights.shape[axis], weights.strides[axis] // weights.itemsize
        else:
            sizes[axis] = steps[axis] = 1
    cdef const void *data = address_of(weights)
    cdef bint narrow = weights.dtype == np.int8
    packing = Packing()
    cdef acc_packing *asking = packing.start()
    with nogil:
        if narrow:
            add_up(<const int8_t *>data, steps, sizes, &sums[0], asking)
        else:
            add_up(<const int16_t *>data, steps, sizes, &sums[0], asking)
    packing.finish()
    return np.asarray(sums)


cdef object laid_out(object values, object dtype, int64_t groups, object order):
    """Return values of filters as tables hold them, integers modulo the range of the type.

    Each group has whole blocks of filters; or filters stand in `order`, in which -1 is none. What
    is no filter is 0.
    """
    values = values.astype(dtype)
    if order is not None:
        return np.where(order < 0, 0, values[order]).astype(dtype)
    of_group = values.shape[0] // groups
    whole = np.zeros((groups, parts(of_group, BLOCK) * BLOCK), dtype)
    whole[:, :of_group] = values.reshape(groups, of_group)
    return whole


cdef int requantize(
    Workload workload, acc_requantization *r, object d, object dtype, int64_t groups, Kernels kernels, object order=None
) except -1:
    """Fill in how the sums of a layer with the descriptor `d` become results of a type.

    Filters stand as `laid_out` says.
    """
    shift = shift_of(kernels, dtype)
    filters = d.weights.shape[0]
    sums = sums_of(d.weights) * -(d.zeros[0] + shift)
    if d.bias is not None:
        sums += d.bias
    bias, factors = laid_out(sums, np.int32, groups, order), laid_out(d.factors, np.float32, groups, order)
    r.bias = <const int32_t *>kept(workload, bias)
    r.factors = <const float *>kept(workload, factors)
    # Weights less their zero points have 9 bits, elements 8.
    largest = (d.weights.size // filters if filters else 0) * 255.0 * 255.0 + np.abs(bias, dtype=np.float64).max(initial=0.0)
    r.near = largest * factors.max(initial=0.0) < NEAR
    r.zero = d.zeros[1] + shift
    r.low, r.high = d.bounds[0] + shift, d.bounds[1] + shift
    return 0
