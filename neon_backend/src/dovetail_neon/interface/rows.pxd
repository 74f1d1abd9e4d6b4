from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/rows.h" nogil:
    ctypedef struct neon_softmax:
        int64_t outer
        int64_t size
        int64_t inner
        int64_t chunks
        float beta
        int32_t logarithm

    ctypedef struct neon_layer_normalization:
        int64_t size
        float epsilon
        int32_t center
        const float *scale
        const float *offset

    ctypedef struct neon_rows_kernels:
        dovetail_body softmax
        dovetail_body softmax_across
        dovetail_body layer_normalization
