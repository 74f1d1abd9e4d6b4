from libc.stdint cimport int32_t, int64_t


cdef extern from "interface/packing.h" nogil:
    ctypedef struct neon_packing:
        int (*is_over)(neon_packing *self) noexcept nogil
        int64_t work
        int32_t over
