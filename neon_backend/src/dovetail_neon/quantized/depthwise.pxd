"""What depthwise convolutions of quantized bytes and of int16 share."""

from libc.stdint cimport int64_t

from dovetail_neon.quantized.parameters cimport acc_quantized_depthwise
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef object lay_groups(acc_quantized_depthwise *w, object d, int64_t step, int64_t depth, Kernels kernels, int64_t element)
cdef char *pack_depthwise_filters(
    Workload workload, const acc_quantized_depthwise *w, Kernels kernels, object layer, object channel_of, int unit, int64_t element
) except NULL
cdef int cut_depthwise(
    Workload workload, acc_quantized_depthwise *w, int64_t group, int64_t element, double nanoseconds
) except -1
