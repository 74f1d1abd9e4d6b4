from libc.stdint cimport int32_t


cdef extern from "interface/activation.h" nogil:
    ctypedef struct neon_activation:
        int32_t function
        float a
        float b
