from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "dovetail_neon/matrices/parameters.h" nogil:
    ctypedef struct acc_matmul:
        int64_t batches
        int64_t rows
        int64_t columns
        int64_t depth
        int32_t left
        int32_t right
        int32_t left_transposed
        int32_t right_transposed
        int64_t left_step
        int64_t right_step
        const int64_t *left_matrix
        const int64_t *right_matrix
        int64_t panels
        int64_t chunks
        int64_t packed_left
        int64_t packed_right
        int64_t rows_at_once

    ctypedef struct acc_matmul_kernels:
        int32_t vectors
        int32_t rows
        int32_t dot_rows
        int32_t few_rows
        dovetail_body pack_left
        dovetail_body pack_right
        dovetail_body pack_right_transposed
        dovetail_body packed
        dovetail_body direct
        dovetail_body few
        dovetail_body dots
