"""What a depthwise convolution consists of, for workloads of which one is a part."""

from dovetail_neon.windows.parameters cimport acc_windows
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef int describe(acc_windows *w, object d, int lanes) except -1
cdef int give_filters(Workload workload, acc_windows *w, object d, object name, Kernels kernels) except -1
cdef double cost(const acc_windows *w) noexcept
