from dovetail_neon.interface.convolution cimport neon_convolution_kernels
from dovetail_neon.interface.strips cimport neon_strips_kernels


cdef extern from "interface/float16.h" nogil:
    ctypedef struct neon_float16_kernels:
        const char *name
        const neon_convolution_kernels *convolution
        const neon_strips_kernels *strips

    const neon_float16_kernels *neon_float16_kernels_of(const char *instruction_set, const char *unit)
