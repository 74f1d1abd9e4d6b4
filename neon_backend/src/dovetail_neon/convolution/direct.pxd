"""What a convolution consists of, for workloads of which one is a part."""

from dovetail_neon.convolution.parameters cimport acc_convolution
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef int describe(
    Workload workload, acc_convolution *c, object d, object name, object source, object target, bint adds, Kernels kernels
) except -1
cdef double cost(const acc_convolution *c) noexcept
