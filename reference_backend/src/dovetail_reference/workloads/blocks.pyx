"""Elements of any type, a block at a time, as doubles or as 64-bit integers; see `blocks.pxd`."""

from libc.math cimport fabs, fmod, isfinite, isnan, trunc
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from dovetail_reference.workloads.elements cimport BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64
from dovetail_reference.workloads.elements cimport UINT8, UINT16, UINT32, UINT64, Element, element_of, number
from dovetail_reference.workloads.half cimport float_of_half, half_of_float

ctypedef fused wide:
    double
    int64_t


cdef domain domain_of(Element kind) noexcept nogil:
    """Say which arithmetic serves a type."""
    if kind <= BFLOAT16:
        return REAL
    return SIGNED if kind <= INT64 else UNSIGNED


cdef int64_t whole_of_real(double value) noexcept nogil:
    """Truncate toward zero, modulo 2^64; NaN and the infinities give 0 (the rule of `Cast`)."""
    cdef double whole
    if not isfinite(value):
        return 0
    whole = trunc(value)
    if fabs(whole) < 9223372036854775808.0:
        return <int64_t>whole
    whole = fmod(whole, 18446744073709551616.0)     # exact
    if whole < 0:
        return <int64_t>(0 - <uint64_t>(-whole))
    return <int64_t><uint64_t>whole


cdef inline float odd_float(double value) noexcept nogil:
    """Round to float32 to odd: rounding again, to 16 bits, is then as if from `value`.

    Source: Boldo and Melquiond 2008.
    """
    cdef float near = <float>value
    cdef uint32_t bits
    if <double>near == value or isnan(value):
        return near
    memcpy(&bits, &near, sizeof(bits))
    if bits & 1 == 0:   # the value lies between `near` and the neighbour on its side, whose last bit is 1
        bits = bits + 1 if fabs(value) > fabs(<double>near) else bits - 1
        memcpy(&near, &bits, sizeof(bits))
    return near


cdef inline double odd_double(int64_t value, bint unsigned) noexcept nogil:
    """Drop 11 bits, keeping a sticky one: rounding again, to 16 bits, is as if from `value`."""
    cdef bint negative = not unsigned and value < 0
    cdef uint64_t magnitude = 0 - <uint64_t>value if negative else <uint64_t>value
    if magnitude >> 53 and magnitude & 0x7FF:
        magnitude = (magnitude & ~<uint64_t>0x7FF) | 0x800
    return -<double>magnitude if negative else <double>magnitude


cdef inline void read_elements(const number *unused, const char *at, int64_t step, int64_t n, wide *values) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        values[i] = <wide>(<const number *>(at + i * step))[0]


cdef inline void load_numbers(Element kind, const char *at, int64_t step, int64_t n, wide *values) noexcept nogil:
    """Read n elements of a type that C has.

    Integers that are wider than `values` are rounded, and a uint64 keeps its bits.
    """
    if kind == FLOAT64: read_elements(<const double *>NULL, at, step, n, values)
    elif kind == FLOAT32: read_elements(<const float *>NULL, at, step, n, values)
    elif kind == INT8: read_elements(<const int8_t *>NULL, at, step, n, values)
    elif kind == INT16: read_elements(<const int16_t *>NULL, at, step, n, values)
    elif kind == INT32: read_elements(<const int32_t *>NULL, at, step, n, values)
    elif kind == INT64: read_elements(<const int64_t *>NULL, at, step, n, values)
    elif kind == UINT8: read_elements(<const uint8_t *>NULL, at, step, n, values)
    elif kind == UINT16: read_elements(<const uint16_t *>NULL, at, step, n, values)
    elif kind == UINT32: read_elements(<const uint32_t *>NULL, at, step, n, values)
    else: read_elements(<const uint64_t *>NULL, at, step, n, values)


cdef void load_bools(const char *at, int64_t step, int64_t n, wide *values) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        values[i] = at[i * step] != 0


cdef void load_reals(Element kind, const char *at, int64_t step, int64_t n, double *values) noexcept nogil:
    """Read n elements; 64-bit integers are rounded to nearest even."""
    cdef int64_t i
    if kind == FLOAT16 or kind == BFLOAT16:
        for i in range(n):
            values[i] = float_of_half((<const uint16_t *>(at + i * step))[0], kind == BFLOAT16)
    elif kind == BOOL:
        load_bools(at, step, n, values)
    else:
        load_numbers(kind, at, step, n, values)


cdef void load_wholes(Element kind, const char *at, int64_t step, int64_t n, int64_t *values) noexcept nogil:
    """Read n elements; floats by the rule of `Cast`, and a uint64 keeps its bits."""
    cdef int64_t i
    cdef double value
    if kind <= BFLOAT16:
        for i in range(n):
            load_reals(kind, at + i * step, step, 1, &value)
            values[i] = whole_of_real(value)
    elif kind == BOOL:
        load_bools(at, step, n, values)
    else:
        load_numbers(kind, at, step, n, values)


cdef void write_wholes(const number *unused, const int64_t *values, int64_t n, char *at, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        (<number *>(at + i * step))[0] = <number>values[i]


cdef void store_bools(const wide *values, int64_t n, char *at, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        at[i * step] = values[i] != 0


cdef inline void store_halves(bint brain, const double *values, int64_t n, char *at, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        (<uint16_t *>(at + i * step))[0] = half_of_float(odd_float(values[i]), brain)


cdef void store_wholes(Element kind, const int64_t *values, bint unsigned, int64_t n, char *at, int64_t step) noexcept nogil:
    """Write n elements: integers modulo 2^bits, floats rounded to nearest even, bool as `!= 0`."""
    cdef int64_t i
    cdef double real
    if kind == INT8 or kind == UINT8:
        write_wholes(<const uint8_t *>NULL, values, n, at, step)
    elif kind == INT16 or kind == UINT16:
        write_wholes(<const uint16_t *>NULL, values, n, at, step)
    elif kind == INT32 or kind == UINT32:
        write_wholes(<const uint32_t *>NULL, values, n, at, step)
    elif kind == INT64 or kind == UINT64:
        write_wholes(<const uint64_t *>NULL, values, n, at, step)
    elif kind == BOOL:
        store_bools(values, n, at, step)
    elif kind == FLOAT64:
        for i in range(n):
            (<double *>(at + i * step))[0] = real_of_whole(values[i], unsigned)
    elif kind == FLOAT32:
        for i in range(n):
            (<float *>(at + i * step))[0] = <float><uint64_t>values[i] if unsigned else <float>values[i]
    else:
        for i in range(n):
            real = odd_double(values[i], unsigned)
            store_halves(kind == BFLOAT16, &real, 1, at + i * step, step)


cdef void store_reals(Element kind, const double *values, int64_t n, char *at, int64_t step) noexcept nogil:
    """Write n elements: floats to nearest even, integers by the rule of `Cast`, bool as `!= 0`."""
    cdef int64_t i, whole
    if kind == FLOAT64:
        for i in range(n):
            (<double *>(at + i * step))[0] = values[i]
    elif kind == FLOAT32:
        for i in range(n):
            (<float *>(at + i * step))[0] = <float>values[i]
    elif kind == FLOAT16:
        store_halves(False, values, n, at, step)
    elif kind == BFLOAT16:
        store_halves(True, values, n, at, step)
    elif kind == BOOL:
        store_bools(values, n, at, step)
    else:
        for i in range(n):
            whole = whole_of_real(values[i])
            store_wholes(kind, &whole, False, 1, at + i * step, step)


def element_bytes(dtype, value):
    """Return one element of a `DType` as bytes; other types are converted by the rule of `Cast`."""
    cdef Element kind = element_of(dtype)
    cdef char stored[8]
    cdef double real
    cdef int64_t whole
    if isinstance(value, float):
        real = value
        store_reals(kind, &real, 1, stored, 8)
    else:
        whole = <int64_t><uint64_t>(int(value) & 0xFFFFFFFFFFFFFFFF)
        store_wholes(kind, &whole, int(value) >= 0, 1, stored, 8)
    return stored[:dtype.itemsize]
