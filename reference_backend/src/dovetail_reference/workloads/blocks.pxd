"""Elements of any type, a block at a time, as doubles or as 64-bit integers.

Every type but int64 and uint64 fits a double exactly, and every integer type fits 64 bits, so
arithmetic is written twice and not thirteen times. Of one +, -, *, / or sqrt on float32 or
narrower, the double result rounded to that type is the correctly rounded one (Figueroa 1995).
"""

from libc.stdint cimport int64_t, uint64_t

from dovetail_reference.workloads.elements cimport Element

# What arithmetic an element type takes part in.
cdef enum domain:
    REAL        # double
    SIGNED      # int64
    UNSIGNED    # uint64, its bits held in an int64; bool counts as 0 and 1

cdef domain domain_of(Element kind) noexcept nogil

cdef void load_reals(Element kind, const char *at, int64_t step, int64_t n, double *values) noexcept nogil
cdef void load_wholes(Element kind, const char *at, int64_t step, int64_t n, int64_t *values) noexcept nogil
cdef void store_reals(Element kind, const double *values, int64_t n, char *at, int64_t step) noexcept nogil
cdef void store_wholes(Element kind, const int64_t *values, bint unsigned, int64_t n, char *at, int64_t step) noexcept nogil

cdef int64_t whole_of_real(double value) noexcept nogil


cdef inline double real_of_whole(int64_t value, bint unsigned) noexcept nogil:
    """Convert, rounding to nearest even beyond 53 bits."""
    return <double><uint64_t>value if unsigned else <double>value
