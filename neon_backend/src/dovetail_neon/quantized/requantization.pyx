"""What layers of quantized tensors share: units, zero points, and from sums to results."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_requantization
from dovetail_neon.workload.making cimport Kernels, Workload, parts
from dovetail_neon.workload.workload cimport fill

import numpy as np

from dovetail.ground.pieces import holds, reduced


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


def fits_a_byte(weights):
    """Whether weights can be multiplied as bytes."""
    return (weights >= -128) & (weights <= 127)


cdef int unit_of(Kernels kernels, object weights) except -1:
    """0 for products of 16 bits, 1 for those of 8, where the machine has them and weights fit."""
    return kernels.quantized.has_quads and weights.size > 0 and holds(fits_a_byte, weights)


cdef int requantize(Workload workload, acc_requantization *r, object d, object dtype, int64_t groups, Kernels kernels, object order=None) except -1:
    """Fill in how the sums of a layer with the descriptor `d` become results of a type.

    Each group has whole blocks of filters; or filters stand in `order`, in which -1 is none.
    """
    shift = shift_of(kernels, dtype)
    filters = d.weights.shape[0]
    group_elements = filters // groups
    sums = np.zeros(filters, np.int64)
    if d.weights.size:
        sums = reduced(np.add, d.weights, range(1, d.weights.ndim), np.int64).reshape(filters) * -(d.zeros[0] + shift)
    if d.bias is not None:
        sums += d.bias
    whole = np.zeros((groups, parts(group_elements, BLOCK) * BLOCK), np.int32)
    whole[:, :group_elements] = sums.astype(np.int32).reshape(groups, group_elements)    # modulo 2^32, as all sums are
    factors = np.zeros(whole.shape, np.float32)
    factors[:, :group_elements] = d.factors.reshape(groups, group_elements)
    if order is not None:
        whole, factors = (np.where(order < 0, 0, array[0][order]).astype(array.dtype) for array in (whole, factors))
    r.bias = <const int32_t *>kept(workload, whole)
    r.factors = <const float *>kept(workload, factors)
    # Weights less their zero points have 9 bits, elements 8.
    largest = (d.weights.size // filters if filters else 0) * 255.0 * 255.0 + np.abs(whole, dtype=np.float64).max(initial=0.0)
    r.near = largest * factors.max(initial=0.0) < NEAR
    r.zero = d.zeros[1] + shift
    r.low, r.high = d.bounds[0] + shift, d.bounds[1] + shift
    return 0
