"""What convolutions of quantized bytes and of int16 share."""

from libc.stdint cimport int64_t

from dovetail_neon.quantized.parameters cimport acc_quantized_convolution, acc_quantized_kernels
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport Workload

cdef enum:
    COPIES_PER_WORKER = 8       # chunks, each of which copies its frame
    LONG_SUM = 1 << 15          # products of a result: a tile of such results takes some tenths of a millisecond

cdef int64_t panels_of(
    const acc_quantized_kernels *table, int64_t blocks, int64_t rows, int64_t columns, int64_t block_weights, int64_t planes=*
) noexcept
cdef char *packed_filters(
    Workload workload, const acc_quantized_convolution *c, Kernels kernels, object weights, int unit, object name
) except NULL
cdef int share_out(acc_quantized_convolution *c, int64_t chunks, int64_t least, int64_t element=*) except -1
