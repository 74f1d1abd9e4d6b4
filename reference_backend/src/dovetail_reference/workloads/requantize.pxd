"""Quantized layers: the arithmetic of `requantize.h`, and reading a layer's quantization."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "requantize.h" nogil:
    ctypedef struct requantization:
        int32_t multiplier
        int32_t shift

    double product_scale(double input, double weights, bint single)
    double product_ratio(float a, float b, float result)
    requantization requantization_of(double factor)
    int32_t requantize(int32_t x, requantization by)
    int32_t requantize_wide(int64_t x, requantization by)
    int32_t rescale(int64_t x, double factor, int32_t zero, int32_t low, int32_t high)
    int32_t rounding_divide_by_power_of_two(int32_t x, int exponent)
    int32_t clamp_sum(int32_t x, int32_t zero, int32_t low, int32_t high)
    int32_t clamp_int32(int32_t x, int32_t low, int32_t high)
