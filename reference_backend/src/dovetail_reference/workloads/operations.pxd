"""Point to the scalar functions of elementwise kinds: of doubles, and of 64-bit integers."""

from libc.stdint cimport int64_t

ctypedef double (*real_function)(double x) noexcept nogil
ctypedef double (*real_function2)(double a, double b) noexcept nogil
ctypedef int64_t (*whole_function)(int64_t x) noexcept nogil
ctypedef int64_t (*whole_function2)(int64_t a, int64_t b) noexcept nogil

cdef real_function real_unary(object operation) except NULL
cdef real_function2 real_binary(object operation) except NULL
cdef whole_function whole_unary(object operation, bint unsigned) except NULL
cdef whole_function2 whole_binary(object operation, bint unsigned, bint unsigned_exponent) except NULL
cdef int64_t clamp_whole(int64_t x, int64_t low, int64_t high, bint unsigned) noexcept nogil
