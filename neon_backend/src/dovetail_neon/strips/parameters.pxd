from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.convolution.parameters cimport acc_convolution, acc_convolution_kernels
from dovetail_neon.windows.parameters cimport acc_windows


cdef extern from "dovetail_neon/strips/parameters.h" nogil:
    enum: ACC_LONGEST_CHAIN

    ctypedef struct acc_stage:
        int32_t is_windows
        acc_convolution convolution
        acc_windows windows
        int64_t in_height
        int64_t stride
        int64_t padding
        int64_t reach
        int64_t strip
        int64_t block_step
        int64_t row

    ctypedef struct acc_strips:
        int64_t stages
        int64_t out_height
        int64_t rows
        int64_t polls
        acc_stage stage[ACC_LONGEST_CHAIN]

    ctypedef struct acc_strips_kernels:
        dovetail_body run
