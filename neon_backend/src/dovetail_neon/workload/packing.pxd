from libc.stdint cimport int32_t, int64_t


cdef extern from "dovetail_neon/workload/packing.h" nogil:
    ctypedef struct acc_packing:
        int (*is_over)(acc_packing *self) noexcept nogil
        int64_t work
        int32_t over

    bint acc_packing_stops(acc_packing *packing, int64_t elements)
