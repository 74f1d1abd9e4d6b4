from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/normalization.h" nogil:
    ctypedef struct neon_affine:
        int64_t channels
        int64_t inner
        const float *factor
        const float *offset

    ctypedef struct neon_group_normalization:
        int64_t groups
        int64_t channels
        int64_t inner
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct neon_column_normalization:
        int64_t pixels
        int64_t channels
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct neon_normalization_kernels:
        dovetail_body affine
        dovetail_body groups
        dovetail_body columns
