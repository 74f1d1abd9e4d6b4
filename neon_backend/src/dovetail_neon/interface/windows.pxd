from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation


cdef extern from "interface/windows.h" nogil:
    ctypedef struct neon_windows:
        int64_t images
        int64_t channels
        int64_t blocks
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t kernel_height
        int64_t kernel_width
        int64_t stride_y
        int64_t stride_x
        int64_t dilation_y
        int64_t dilation_x
        int64_t padding_top
        int64_t padding_left
        int32_t by_rows
        int32_t polls
        const float *weights
        const float *bias
        neon_activation activation
        const float *factors

    ctypedef struct neon_windows_kernels:
        dovetail_body depthwise
        dovetail_body maximum
        dovetail_body average
        dovetail_body mean
