"""What a convolution consists of, for workloads of which one is a part."""

from dovetail_neon.interface.convolution cimport neon_convolution
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.workload cimport Workload

cdef int describe(
    Workload workload, neon_convolution *c, object d, object name, object source, object target, bint adds, Kernels kernels
) except -1
cdef double cost(const neon_convolution *c) noexcept
