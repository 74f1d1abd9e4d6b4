"""Weights of recurrent layers, packed once."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.kernels cimport Kernels
from dovetail_neon.recurrent.parameters cimport acc_fixed_factor, acc_recurrent_matrix
from dovetail_neon.workload.workload cimport Workload

cdef enum:
    LINE = 64                       # bytes
    ROWS_AHEAD = 64                 # rows of the input that are multiplied at once, if a step has fewer
    WORTH_SHARING = 20_000          # nanoseconds of a product of a step: shared out, each costs some microseconds

cdef int32_t byte_shift(Kernels kernels, int unit) except? -1
cdef acc_fixed_factor factor_of(object scaling) except *
cdef int pack_bytes(
    Workload workload, acc_recurrent_matrix *m, object weights, object bias, int32_t zero, int64_t states, object name,
    Kernels kernels) except -1
cdef int pack_floats(
    Workload workload, acc_recurrent_matrix *m, object weights, object bias, int64_t states, object name, Kernels kernels,
) except -1
cdef int64_t take(Workload workload, int64_t nbytes) except -1
