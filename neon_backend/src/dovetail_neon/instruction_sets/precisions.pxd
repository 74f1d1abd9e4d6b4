from dovetail.abi cimport dovetail_body
from dovetail_neon.convolution.parameters cimport acc_bfloat16_kernels, acc_convolution_kernels
from dovetail_neon.strips.parameters cimport acc_strips_kernels


cdef extern from "dovetail_neon/instruction_sets/precisions.h" nogil:
    ctypedef struct acc_precision:
        const char *precision
        const char *unit
        const acc_convolution_kernels *convolution
        const acc_strips_kernels *strips
        const acc_bfloat16_kernels *arranged
        dovetail_body depthwise

    const acc_precision *acc_precision_of(const char *instruction_set, const char *precision, const char *unit)
