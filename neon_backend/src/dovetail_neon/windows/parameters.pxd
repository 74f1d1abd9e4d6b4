from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.elementwise.activation cimport acc_activation
from dovetail_neon.geometry.window cimport acc_window


cdef extern from "dovetail_neon/windows/parameters.h" nogil:
    ctypedef struct acc_windows:
        int64_t images
        int64_t channels
        int64_t blocks
        acc_window window
        int32_t by_rows
        int32_t polls
        const float *weights
        const float *bias
        acc_activation activation
        int64_t chunks
        const float *factors

    ctypedef struct acc_windows_kernels:
        dovetail_body depthwise
        dovetail_body maximum
        dovetail_body average
        dovetail_body mean
