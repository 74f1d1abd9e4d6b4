"""A stable sort of scored positions; see `selection.pyx`."""

from libc.stdint cimport int64_t, uint64_t

from dovetail_reference.workloads.walking cimport errand

cdef struct entry:
    uint64_t score
    int64_t position

cdef entry *sorted_entries(entry *entries, entry *spare, int64_t n, errand *run) noexcept nogil
