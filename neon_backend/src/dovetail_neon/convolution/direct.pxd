"""What a convolution consists of, for workloads of which one is a part."""

from libc.stdint cimport int64_t

from dovetail_neon.convolution.parameters cimport acc_convolution, acc_pixels
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef int describe(
    Workload workload, acc_convolution *c, object d, object name, object source, object target, bint adds, Kernels kernels
) except -1
cdef int fill_pixels(acc_pixels *pixels, object info, object image, int64_t groups, int lanes) except -1
cdef int64_t even(int64_t chunks) noexcept
cdef double cost(const acc_convolution *c) noexcept
