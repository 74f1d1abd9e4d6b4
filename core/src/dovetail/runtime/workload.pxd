"""Workloads and queues, for the executor; private to the core."""

from dovetail.abi cimport dovetail_queues, dovetail_workload


cdef class Workload:
    cdef dovetail_workload *table
    cdef dovetail_workload own          # what `table` points at
    cdef dovetail_workload *taken       # the backend's, which is freed with this; NULL for the core's own
    cdef object kept


cdef class Queues:
    cdef dovetail_queues *table
    cdef dovetail_queues own            # what `table` points at
    cdef object kept
