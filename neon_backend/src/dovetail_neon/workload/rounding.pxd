"""Division of sizes."""

from libc.stdint cimport int64_t


cdef inline int64_t parts(int64_t size, int64_t part) noexcept nogil:
    """Return how many parts hold `size`, which is not negative.

    In Cython, -(-a // b) rounds to zero.
    """
    return (size + part - 1) // part
