"""What layers of quantized tensors share."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_requantization
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef enum:
    BLOCK = 16                  # channels that are treated together
    UNIT_BYTES = 4              # of the factors that a lane multiplies at once
    SLACK = 64                  # bytes that may be read behind a pixel
    CHUNK_NANOSECONDS = 2_500
    MAX_CHUNKS = 48
    CHUNKS_PER_WORKER = 64

cdef void *kept(Workload workload, object array) except NULL
cdef int32_t shift_of(Kernels kernels, object dtype) except? -1
cdef int check_weights(object weights, tuple shape, object name) except -1
cdef object shorts(object weights)
cdef const void *address_of(object array) except? NULL
cdef object sums_of(object weights)
cdef object laid_out(object values, object dtype, int64_t groups, object order)
cdef int unit_of(Kernels kernels, object weights) except -1
cdef int requantize(
    Workload workload, acc_requantization *r, object d, object dtype, int64_t groups, Kernels kernels, object order=*) except -1
