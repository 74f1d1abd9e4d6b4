from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "dovetail_neon/attention/parameters.h" nogil:
    ctypedef struct acc_attention:
        int64_t batches
        int64_t heads
        int64_t queries
        int64_t keys
        int64_t size
        int64_t value_size
        int64_t blocks
        int64_t block_rows
        int64_t key_panels
        int64_t value_panels
        int64_t packed_values
        int64_t mask_batch_step
        int64_t mask_head_step
        int64_t mask_query_step
        int64_t mask_key_step
        float scale
        int32_t masked

    ctypedef struct acc_attention_kernels:
        dovetail_body pack
        dovetail_body run
