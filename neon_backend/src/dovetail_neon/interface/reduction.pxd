from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/reduction.h" nogil:
    enum:
        NEON_REDUCE_SUM
        NEON_REDUCE_PRODUCT
        NEON_REDUCE_MAXIMUM
        NEON_REDUCE_MINIMUM
        NEON_REDUCE_LOG_SUM_EXP
        NEON_BEFORE_NOTHING
        NEON_BEFORE_ABSOLUTE
        NEON_BEFORE_SQUARE
        NEON_AFTER_NOTHING
        NEON_AFTER_FACTOR
        NEON_AFTER_ROOT
        NEON_AFTER_LOGARITHM
        NEON_MOST_STAGES

    ctypedef struct neon_reduction_stage:
        int64_t outer
        int64_t size
        int64_t inner
        int64_t chunks
        int64_t source
        int64_t target
        int32_t combine
        int32_t before
        int32_t after
        float factor

    ctypedef struct neon_reduction:
        neon_reduction_stage *stages

    ctypedef struct neon_reduction_kernels:
        dovetail_body *stages
