from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.convolution cimport neon_convolution
from dovetail_neon.interface.windows cimport neon_windows


cdef extern from "interface/strips.h" nogil:
    enum: NEON_LONGEST_CHAIN

    ctypedef struct neon_stage:
        int32_t is_windows
        neon_convolution convolution
        neon_windows windows
        int64_t in_height
        int64_t stride
        int64_t padding
        int64_t reach
        int64_t strip
        int64_t block_step
        int64_t row

    ctypedef struct neon_strips:
        int64_t stages
        int64_t out_height
        int64_t rows
        int64_t polls
        neon_stage stage[NEON_LONGEST_CHAIN]

    ctypedef struct neon_strips_kernels:
        dovetail_body run
