"""What convolutions of quantized bytes and of int16 share."""

from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_kernels
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef int lay_windows(
    acc_quantized_convolution *c, object d, int64_t in_step, int64_t out_step, int element, bint framed
) except -1
cdef int lay_filters(
    Workload workload, acc_quantized_convolution *c, Kernels kernels, object weights, int unit, object name, int64_t planes=*
) except -1
cdef double products_nanoseconds(const acc_quantized_convolution *c, const acc_quantized_kernels *table, int64_t planes=*) noexcept
cdef int share_out(
    acc_quantized_convolution *c, const acc_quantized_kernels *table, double nanoseconds, int64_t planes=*, int64_t element=*
) except -1
cdef int add_phase(
    Workload workload, const acc_quantized_convolution *c, dovetail_body body, double nanoseconds, int64_t frame
) except -1
