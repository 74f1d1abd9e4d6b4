"""Functions of fixed-point numbers: the arithmetic of `fixed_point.h`."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_reference.workloads.requantize cimport requantization


cdef extern from "fixed_point.h" nogil:
    int16_t saturate_int16(int64_t x)
    int16_t fixed_logistic(int16_t x)
    int16_t fixed_tanh(int16_t x, int integer_bits)
    requantization inverse_square_root(int32_t x)
