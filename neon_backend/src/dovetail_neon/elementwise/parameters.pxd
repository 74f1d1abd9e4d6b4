from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.elementwise.activation cimport acc_activation


cdef extern from "dovetail_neon/elementwise/parameters.h" nogil:
    enum:
        ACC_MAX_AXES

    ctypedef struct acc_elementwise:
        int32_t operation
        int32_t axes
        int64_t sizes[8]
        int64_t steps[2][8]
        int64_t row
        int64_t row_step[2]
        int64_t chunks
        acc_activation activation

    ctypedef struct acc_scale:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks
        acc_activation activation

    ctypedef struct acc_flat:
        acc_activation activation

    ctypedef struct acc_elementwise_kernels:
        dovetail_body binary
        dovetail_body scale
        dovetail_body apply

    enum:
        ACC_BOOL
        ACC_INT8
        ACC_UINT8
        ACC_INT16
        ACC_UINT16
        ACC_INT32
        ACC_INT64
        ACC_FLOAT32
        ACC_FLOAT64
        ACC_CAST_TYPES

    ctypedef struct acc_cast_kernels:
        dovetail_body between[ACC_CAST_TYPES][ACC_CAST_TYPES]
