from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation


cdef extern from "interface/elementwise.h" nogil:
    enum:
        NEON_MOST_AXES

    ctypedef struct neon_elementwise:
        int32_t operation
        int32_t axes
        int64_t sizes[8]
        int64_t steps[2][8]
        int64_t row
        int64_t row_step[2]
        int64_t chunks
        neon_activation activation

    ctypedef struct neon_elementwise_kernels:
        dovetail_body binary
