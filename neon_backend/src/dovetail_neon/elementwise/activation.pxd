from libc.stdint cimport int32_t


cdef extern from "dovetail_neon/elementwise/activation.h" nogil:
    ctypedef struct acc_activation:
        int32_t function
        float a
        float b
