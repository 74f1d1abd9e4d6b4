from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "dovetail_neon/resizing/parameters.h" nogil:
    ctypedef struct acc_taps:
        const int64_t *first
        const int64_t *position
        const float *weight

    ctypedef struct acc_resize:
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        acc_taps rows
        acc_taps columns
        int64_t polls
        int64_t polls_mask
        int64_t long_rows

    ctypedef struct acc_resize_kernels:
        dovetail_body nearest
        dovetail_body interpolate
