from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "dovetail_neon/rows/parameters.h" nogil:
    ctypedef struct acc_softmax:
        int64_t outer
        int64_t size
        int64_t inner
        int64_t chunks
        float beta
        int32_t logarithm

    ctypedef struct acc_layer_normalization:
        int64_t size
        float epsilon
        int32_t center
        const float *scale
        const float *offset

    ctypedef struct acc_rows_kernels:
        dovetail_body softmax
        dovetail_body softmax_across
        dovetail_body layer_normalization

    ctypedef struct acc_affine:
        int64_t channels
        int64_t inner
        const float *factor
        const float *offset

    ctypedef struct acc_group_normalization:
        int64_t groups
        int64_t channels
        int64_t inner
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct acc_column_normalization:
        int64_t pixels
        int64_t channels
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct acc_normalization_kernels:
        dovetail_body affine
        dovetail_body groups
        dovetail_body columns

    enum:
        ACC_REDUCE_SUM
        ACC_REDUCE_PRODUCT
        ACC_REDUCE_MAXIMUM
        ACC_REDUCE_MINIMUM
        ACC_REDUCE_LOG_SUM_EXP
        ACC_BEFORE_NOTHING
        ACC_BEFORE_ABSOLUTE
        ACC_BEFORE_SQUARE
        ACC_AFTER_NOTHING
        ACC_AFTER_FACTOR
        ACC_AFTER_ROOT
        ACC_AFTER_LOGARITHM
        ACC_MAX_STAGES

    ctypedef struct acc_reduction_stage:
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

    ctypedef struct acc_reduction:
        acc_reduction_stage *stages

    ctypedef struct acc_reduction_kernels:
        dovetail_body *stages
