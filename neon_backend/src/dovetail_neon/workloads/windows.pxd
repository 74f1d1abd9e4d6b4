"""What a depthwise convolution consists of, for workloads of which one is a part."""

from dovetail_neon.interface.windows cimport neon_windows
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.workload cimport Workload

cdef int describe(neon_windows *w, object d, int lanes) except -1
cdef int give_filters(Workload workload, neon_windows *w, object d, object name, Kernels kernels) except -1
cdef double cost(const neon_windows *w) noexcept
