"""The conversions of `half.h` between float32 and the 16-bit floats."""

from libc.stdint cimport uint16_t


cdef extern from "half.h" nogil:
    float float_of_float16(uint16_t half)
    float float_of_bfloat16(uint16_t half)
    uint16_t float16_of_float(float value)
    uint16_t bfloat16_of_float(float value)


cdef inline float float_of_half(uint16_t half, bint brain) noexcept nogil:
    """Widen a bfloat16 (`brain`) or a float16."""
    return float_of_bfloat16(half) if brain else float_of_float16(half)


cdef inline uint16_t half_of_float(float value, bint brain) noexcept nogil:
    """Round to a bfloat16 (`brain`) or a float16."""
    return bfloat16_of_float(value) if brain else float16_of_float(value)
