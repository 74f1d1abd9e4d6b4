from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/reorder.h" nogil:
    ctypedef struct neon_reorder:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks

    ctypedef struct neon_reorder_kernels:
        dovetail_body blocked_of_nchw
        dovetail_body nchw_of_blocked
        dovetail_body blocked_of_nhwc
        dovetail_body nhwc_of_blocked
