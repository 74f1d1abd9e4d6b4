"""Factors in fixed point, for kernels. Inline helpers only."""

from dovetail_neon.quantized.parameters cimport acc_fixed_point


cdef inline acc_fixed_point fixed_point(object by) except *:
    """A `Scaling`."""
    return acc_fixed_point(by.multiplier, max(by.shift, 0), max(-by.shift, 0))
